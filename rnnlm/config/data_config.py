"""Settings of the data stages: corpus, tokenizer, stored sequences, and the data checks (gates)."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer, model_validator

from rnnlm.config.bounds import NonNegativeInt, PositiveFloat, PositiveInt
from rnnlm.config.engine_config import EngineConfig
from rnnlm.config.section import Section, setting
from rnnlm.storage.redaction import redacted

SplitShare = Annotated[float, Field(ge=0.0, lt=0.5)]


class CorpusConfig(Section):
    source: str = setting(
        "python-docs",
        "The source of the text: a name in the catalogue, hf:OWNER/NAME[:CONFIG], a file, folder, glob or http(s) URL.",
        min_length=1,
        repr=False,
    )
    name: str | None = setting(
        None, "Name of the corpus. If null, it is derived from the source.", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"
    )
    sha256: str | None = setting(
        None, "Expected SHA-256 of the download. If null, it is not checked.", pattern=r"^[0-9a-f]{64}$"
    )
    refresh: str = setting(
        "always",
        "When to look for a newer text at a URL or hf: source: always, never, or after a time such as 30m, 12h or 7d.",
        pattern=r"^(always|never|[1-9][0-9]{0,3}[mhd])$",
    )
    format: Literal[
        "auto", "text", "markdown", "rst", "html", "pdf", "docx", "epub", "csv", "tsv", "jsonl", "parquet"
    ] = setting(
        "auto", "Format of the source's files. `auto` decides by the file name. `text` reads files as they are."
    )
    column: str | None = setting(
        None, "Column with the text in csv, tsv, jsonl, parquet and hf: sources. If null, it is `text`."
    )
    quoting: Literal["auto", "doubled", "backslash", "none"] = setting(
        "auto",
        "How cells with delimiters or line ends are written in csv and tsv files. `doubled`: in quotes, where a quote "
        "inside the cell is doubled. `backslash`: in quotes, where a quote inside has a backslash before it. `none`: "
        "quotes have no meaning. `auto` finds out from the file.",
        added_later=True,
    )
    encoding: str = setting("utf-8", "Text encoding of the source's files.")
    undecodable: Literal["guess", "replace", "refuse"] = setting(
        "guess",
        "What to do with a file that contains NUL, or bytes that are invalid in the encoding. `guess` reads it in the "
        "most likely encoding, or else as `replace`. `replace` puts U+FFFD in their place. `refuse` ends with an "
        "error.",
    )
    normalization: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = setting(
        "none", "Unicode normalization form applied to the text."
    )
    lowercase: bool = setting(False, "Lowercase the text.")
    digits: str | None = setting(
        None, "Replacement for each run of digits, such as ###. If null, digits are kept.", max_length=16
    )
    valid_share: SplitShare = setting(
        0.05, "Fraction of documents for the validation split, if the source has no such split."
    )
    test_share: SplitShare = setting(0.05, "Fraction of documents for the test split, if the source has no such split.")
    maximum_documents: PositiveInt | None = setting(
        None,
        "Largest number of training documents, which are paragraphs, or blocks of long ones. If there are more, a "
        "sample is chosen by digest. The validation and test splits are always complete. If null, all documents are "
        "used.",
        added_later=True,
    )
    maximum_unpacked_bytes: PositiveInt = setting(
        1 << 40, "Largest size of a source after decompression, in bytes.", changes_results=False
    )
    maximum_unpacking_ratio: PositiveFloat = setting(
        200.0,
        "Largest ratio of unpacked to packed bytes, which is checked for more than 16 MiB.",
        changes_results=False,
    )
    maximum_archive_members: PositiveInt = setting(
        10_000, "Largest number of files in an archive.", changes_results=False
    )
    maximum_download_bytes: PositiveInt = setting(
        200_000_000_000, "Largest size of a download, in bytes.", changes_results=False
    )
    maximum_download_seconds: PositiveFloat = setting(
        172_800.0,
        "Longest time of a download in seconds, from the first request to the last byte.",
        changes_results=False,
    )

    @property
    def public_source(self) -> str:
        """The source without passwords and signatures, so that it can be shown and stored."""
        return redacted(self.source)

    @field_serializer("source")
    def without_secrets(self, source: str) -> str:
        return redacted(source)


class TokenizerConfig(Section):
    kind: str = setting(
        "bpe",
        "Kind of tokenizer: char, word, bpe, unigram, or pretrained:NAME_OR_PATH for a Hugging Face tokenizer.",
        pattern=r"^(char|word|bpe|unigram|pretrained:.+)$",
    )
    splitting: Literal["whitespace", "punctuation", "textbook"] = setting("whitespace", "How text is split into words.")
    vocabulary_size: int | None = setting(
        None,
        "Largest number of token ids, including special tokens. If null, it is 8,000, or fewer for subwords of a short "
        "text.",
        ge=16,
        le=1_000_000,
    )
    minimum_count: PositiveInt = setting(
        1, "Words, characters and merges that occur less often in the training split are not part of the vocabulary."
    )
    unknown_literal: str | None = setting("<unk>", "The literal by which the corpus itself represents an unknown word.")
    training_bytes: PositiveInt = setting(
        200_000_000,
        "Largest amount of text in bytes on which subwords are trained. It is spread evenly over the split.",
    )

    @model_validator(mode="after")
    def check_byte_alphabet(self) -> "TokenizerConfig":
        if self.kind in ("bpe", "unigram") and self.vocabulary_size is not None and self.vocabulary_size < 260:
            raise ValueError(f"{self.kind} needs a vocabulary_size of at least 260 (256 bytes, 4 special tokens)")
        return self


class SequencesConfig(EngineConfig):
    mode: Literal["sentence", "stream"] = setting(
        "sentence", "With `sentence`, each line is a sequence. With `stream`, the corpus is one continuous text."
    )
    context_length: int = setting(
        64, "Largest number of predicted tokens per stored row in sentence mode.", ge=1, le=65_536
    )
    long_lines: Literal["continue", "truncate"] = setting(
        "continue",
        "What to do with a line that has more predicted tokens than context_length, in sentence mode. `continue` puts "
        "the rest into further rows. `truncate` stores only the first row; the rest counts at 8 bits per byte.",
        added_later=True,
    )
    block_length: int = setting(128, "Number of predicted tokens per stored row in stream mode.", ge=2, le=1_048_576)
    memory_mebibytes: int = setting(
        128, "Memory limit of DuckDB while it stores sequences, in MiB.", ge=16, le=1_048_576, changes_results=False
    )
    parts_above_bytes: NonNegativeInt = setting(
        4 << 30,
        "Size of a corpus in bytes of UTF-8. The sequences of larger ones are stored as Parquet parts next to the "
        "DuckDB file. With 0, all are.",
        changes_results=False,
    )

    @model_validator(mode="after")
    def check_long_lines(self) -> "SequencesConfig":
        if self.long_lines == "truncate" and self.mode == "stream":
            raise ValueError("long_lines=truncate needs mode=sentence, because a continuous text has no long lines")
        return self


def warn_at(default: float | None, condition: str) -> Any:
    """Return a setting for the fraction above which a data gate warns."""
    return setting(default, f"Warn {condition} If null, never warn.", ge=0.0, le=1.0, changes_results=False)


def stop_at(default: float | None, condition: str) -> Any:
    """Return a setting for the fraction above which a data gate stops the run."""
    return setting(default, f"Stop {condition} If null, never stop.", ge=0.0, le=1.0, changes_results=False)


SHRINKAGE = "if the corpus is smaller than the champion's by more than this fraction."
UNKNOWN_WORDS = "if more than this fraction of a held-out split's tokens are unknown words."
DUPLICATES = (
    "if more than this fraction of the training rows (in stream mode: documents) repeat another one, or if more than "
    "this fraction of a held-out split's text repeats its own lines."
)
LEAKAGE = "if more than this fraction of a held-out split's text is in lines that also occur in the training text."
DRIFT = "if the distance between the character frequencies of this text and the champion's is larger."


class GatesConfig(Section):
    """Checks before training. If a measure exceeds *_warn_at, the check warns.

    If it exceeds *_stop_at, the run ends, and the champion is kept.
    """

    shrinkage_warn_at: float | None = warn_at(0.1, SHRINKAGE)
    shrinkage_stop_at: float | None = stop_at(0.5, SHRINKAGE)
    unknown_warn_at: float | None = warn_at(0.25, UNKNOWN_WORDS)
    unknown_stop_at: float | None = stop_at(None, UNKNOWN_WORDS)
    duplicates_warn_at: float | None = warn_at(0.5, DUPLICATES)
    duplicates_stop_at: float | None = stop_at(None, DUPLICATES)
    leakage_warn_at: float | None = warn_at(0.2, LEAKAGE)
    leakage_stop_at: float | None = stop_at(None, LEAKAGE)
    drift_warn_at: float | None = warn_at(0.1, DRIFT)
    drift_stop_at: float | None = stop_at(0.4, DRIFT)
