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
        "Source of the text: a name in the catalogue, hf:OWNER/NAME[:CONFIG], a file, folder, glob or http(s) URL.",
        min_length=1,
        repr=False,
    )
    name: str | None = setting(
        None, "Name of the corpus. If null, it is derived from the source.", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"
    )
    sha256: str | None = setting(
        None, "SHA-256 that the download must have. If null, it is not checked.", pattern=r"^[0-9a-f]{64}$"
    )
    refresh: str = setting(
        "always",
        "Minimum time between two checks for a newer text at a URL or hf: source, such as 30m, 12h or 7d. With "
        "`always`, every run checks. With `never`, none does.",
        pattern=r"^(always|never|[1-9][0-9]{0,3}[mhd])$",
    )
    format: Literal[
        "auto", "text", "markdown", "rst", "html", "pdf", "docx", "epub", "csv", "tsv", "jsonl", "parquet"
    ] = setting(
        "auto",
        "Format of the source's files. With `auto`, the file name decides. With `text`, files are read as they are.",
    )
    column: str | None = setting(
        None, "Column with the text in csv, tsv, jsonl, parquet and hf: sources. If null, it is `text`."
    )
    quoting: Literal["auto", "doubled", "backslash", "none"] = setting(
        "auto",
        "Quoting of cells with delimiters or line ends in csv and tsv files. `doubled`: in quotes, and a quote inside "
        "the cell is doubled. `backslash`: in quotes, and a quote inside the cell has a backslash before it. `none`: "
        "quotes have no meaning. `auto`: detected from the file.",
        added_later=True,
    )
    encoding: str = setting("utf-8", "Text encoding of the source's files.")
    undecodable: Literal["guess", "replace", "refuse"] = setting(
        "guess",
        "Treatment of a file that contains NUL, or bytes that are invalid in the encoding. `guess` reads it in the "
        "most likely encoding. `replace` replaces such bytes by U+FFFD, and so does `guess` if no encoding fits. "
        "`refuse` ends with an error.",
    )
    normalization: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = setting(
        "none", "Unicode normalization form applied to the text."
    )
    lowercase: bool = setting(False, "Whether to convert the text to lower case.")
    digits: str | None = setting(
        None, "Replacement for each run of digits, such as ###. If null, digits are kept.", max_length=16
    )
    valid_share: SplitShare = setting(
        0.05, "Fraction of documents in the validation split. It applies if the source has no such split."
    )
    test_share: SplitShare = setting(
        0.05, "Fraction of documents in the test split. It applies if the source has no such split."
    )
    maximum_documents: PositiveInt | None = setting(
        None,
        "Maximum number of training documents. A document is a paragraph, or a block of a long paragraph. If there are "
        "more, a reproducible sample of them is used. The validation and test splits are always complete. If null, all "
        "documents are used.",
        added_later=True,
    )
    maximum_unpacked_bytes: PositiveInt = setting(
        1 << 40, "Maximum size of a source after decompression, in bytes.", changes_results=False
    )
    maximum_unpacking_ratio: PositiveFloat = setting(
        200.0,
        "Maximum ratio of a file's unpacked size to its packed size. It is checked for files with more than 16 MiB "
        "after unpacking.",
        changes_results=False,
    )
    maximum_archive_members: PositiveInt = setting(
        10_000, "Maximum number of files in an archive.", changes_results=False
    )
    maximum_download_bytes: PositiveInt = setting(
        200_000_000_000, "Maximum size of a download, in bytes.", changes_results=False
    )
    maximum_download_seconds: PositiveFloat = setting(
        172_800.0,
        "Maximum duration of a download in seconds, from the first request to the last byte.",
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
        "Maximum number of token ids, including special tokens. If null, it is 8,000, or less for subwords of a short "
        "text.",
        ge=16,
        le=1_000_000,
    )
    minimum_count: PositiveInt = setting(
        1, "Minimum number of occurrences in the training split for words, characters and merges in the vocabulary."
    )
    unknown_literal: str | None = setting("<unk>", "Text by which the corpus itself represents an unknown word.")
    training_bytes: PositiveInt = setting(
        200_000_000,
        "Maximum number of bytes of text on which subwords are trained. This text is spread evenly over the split.",
    )

    @model_validator(mode="after")
    def check_byte_alphabet(self) -> "TokenizerConfig":
        if self.kind in ("bpe", "unigram") and self.vocabulary_size is not None and self.vocabulary_size < 260:
            raise ValueError(f"{self.kind} needs a vocabulary_size of at least 260 (256 bytes, 4 special tokens)")
        return self


class SequencesConfig(EngineConfig):
    mode: Literal["sentence", "stream"] = setting(
        "sentence",
        "Form of the sequences. With `sentence`, each line is a sequence. With `stream`, the corpus is one continuous "
        "text.",
    )
    context_length: int = setting(
        64, "Maximum number of predicted tokens per stored row in sentence mode.", ge=1, le=65_536
    )
    long_lines: Literal["continue", "truncate"] = setting(
        "continue",
        "Treatment of a line with more predicted tokens than context_length, in sentence mode. `continue` puts the "
        "rest of the line into further rows. `truncate` stores only the first row, and the rest of the line is scored "
        "as 8 bits per byte.",
        added_later=True,
    )
    block_length: int = setting(128, "Number of predicted tokens per stored row in stream mode.", ge=2, le=1_048_576)
    memory_mebibytes: int = setting(
        128, "Maximum memory of DuckDB in MiB while it stores sequences.", ge=16, le=1_048_576, changes_results=False
    )
    parts_above_bytes: NonNegativeInt = setting(
        4 << 30,
        "Maximum size, in bytes of UTF-8, of a corpus whose sequences are stored in the DuckDB file. The sequences of "
        "a larger corpus are stored as Parquet parts next to it. With 0, this applies to every corpus.",
        changes_results=False,
    )

    @model_validator(mode="after")
    def check_long_lines(self) -> "SequencesConfig":
        if self.long_lines == "truncate" and self.mode == "stream":
            raise ValueError("long_lines=truncate needs mode=sentence, because a continuous text has no long lines")
        return self


def warn_at(default: float | None, quantity: str) -> Any:
    """Return a setting for the limit above which a data gate warns."""
    text = f"Maximum {quantity}. Above it, the check warns. If null, it never warns."
    return setting(default, text, ge=0.0, le=1.0, changes_results=False)


def stop_at(default: float | None, quantity: str) -> Any:
    """Return a setting for the limit above which a data gate stops the run."""
    text = f"Maximum {quantity}. Above it, the run ends. If null, the check never ends it."
    return setting(default, text, ge=0.0, le=1.0, changes_results=False)


SHRINKAGE = "fraction by which the corpus is smaller than the champion's"
UNKNOWN_WORDS = "fraction of a held-out split's tokens that are unknown words"
DUPLICATES = (
    "fraction of the training rows (in stream mode: documents) that repeat another one. It is also the maximum "
    "fraction of a held-out split's text that repeats its own lines"
)
LEAKAGE = "fraction of a held-out split's text in lines that also occur in the training text"
DRIFT = "distance between the character frequencies of this text and those of the champion's text"


class GatesConfig(Section):
    """Checks before training. If a measured value exceeds *_warn_at, the check warns.

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
