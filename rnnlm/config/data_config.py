"""Settings of the stages from the source to stored sequences: corpus, tokenizer, sequences, and the gates."""

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
        "Catalogue name, hf:OWNER/NAME[:CONFIG], file, folder, glob or http(s) URL.",
        min_length=1,
        repr=False,
    )
    name: str | None = setting(
        None, "Name of the corpus. null: derived from the source.", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"
    )
    sha256: str | None = setting(
        None, "Expected SHA-256 of the download. null: not checked.", pattern=r"^[0-9a-f]{64}$"
    )
    refresh: str = setting(
        "always",
        "When to look for a newer text at a URL or hf: source: always, never, or after a time such as 30m, 12h or 7d.",
        pattern=r"^(always|never|[1-9][0-9]{0,3}[mhd])$",
    )
    format: Literal[
        "auto", "text", "markdown", "rst", "html", "pdf", "docx", "epub", "csv", "tsv", "jsonl", "parquet"
    ] = setting("auto", "Format of the source's files. auto: by file name. text: as they are.")
    column: str | None = setting(
        None, "Column with the text, for csv, tsv, jsonl, parquet and hf: sources. null: `text`."
    )
    quoting: Literal["auto", "doubled", "backslash", "none"] = setting(
        "auto",
        "How csv and tsv files mark cells with delimiters or line ends. doubled: they stand in quotes, and a quote "
        "within is doubled. backslash: it has a backslash before it. none: quotes are characters. auto: as measured.",
        added_later=True,
    )
    encoding: str = setting("utf-8", "Text encoding of the source's files.")
    undecodable: Literal["guess", "replace", "refuse"] = setting(
        "guess",
        "What to do with a file with NUL, or with bytes invalid in the encoding. guess: read it in the encoding that "
        "it looks like, else as with replace. replace: U+FFFD in their place. refuse: end with an error.",
    )
    normalization: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = setting(
        "none", "Unicode normalization form applied to the text."
    )
    lowercase: bool = setting(False, "Lowercase the text.")
    digits: str | None = setting(
        None, "Replacement for each run of digits, such as ###. null: digits stay.", max_length=16
    )
    valid_share: SplitShare = setting(
        0.05, "Share of documents for the validation split, if the source has no such split."
    )
    test_share: SplitShare = setting(0.05, "Share of documents for the test split, if the source has no such split.")
    maximum_documents: PositiveInt | None = setting(
        None,
        "Largest number of training documents (paragraphs, or blocks of long ones): a sample by digest. "
        "Validation and test stay whole. null: all.",
        added_later=True,
    )
    maximum_unpacked_bytes: PositiveInt = setting(
        1 << 40, "Largest size of a source after decompression, in bytes.", changes_results=False
    )
    maximum_unpacking_ratio: PositiveFloat = setting(
        200.0, "Largest ratio of unpacked to packed bytes, checked from 16 MiB on.", changes_results=False
    )
    maximum_archive_members: PositiveInt = setting(
        10_000, "Largest number of files in an archive.", changes_results=False
    )
    maximum_download_bytes: PositiveInt = setting(
        200_000_000_000, "Largest size of a download, in bytes.", changes_results=False
    )
    maximum_download_seconds: PositiveFloat = setting(
        172_800.0, "Longest time for a download, from first request to last byte, in seconds.", changes_results=False
    )

    @property
    def public_source(self) -> str:
        """The source without passwords and signatures, which may be shown and stored."""
        return redacted(self.source)

    @field_serializer("source")
    def without_secrets(self, source: str) -> str:
        return redacted(source)


class TokenizerConfig(Section):
    kind: str = setting(
        "bpe",
        "char, word, bpe, unigram, or pretrained:NAME_OR_PATH for a Hugging Face tokenizer.",
        pattern=r"^(char|word|bpe|unigram|pretrained:.+)$",
    )
    splitting: Literal["whitespace", "punctuation", "textbook"] = setting("whitespace", "How text is split into words.")
    vocabulary_size: int | None = setting(
        None,
        "Largest number of token ids, special tokens included. null: 8,000, of subwords fewer if the text is short.",
        ge=16,
        le=1_000_000,
    )
    minimum_count: PositiveInt = setting(
        1, "Words, characters and merges that occur less often in the training split get no id."
    )
    unknown_literal: str | None = setting("<unk>", "How the corpus itself spells an unknown word.")
    training_bytes: PositiveInt = setting(
        200_000_000, "Largest amount of text, in bytes, to learn subwords from, spread evenly over the split."
    )

    @model_validator(mode="after")
    def check_byte_alphabet(self) -> "TokenizerConfig":
        if self.kind in ("bpe", "unigram") and self.vocabulary_size is not None and self.vocabulary_size < 260:
            raise ValueError(f"{self.kind} needs a vocabulary_size of at least 260 (256 bytes, 4 special tokens)")
        return self


class SequencesConfig(EngineConfig):
    mode: Literal["sentence", "stream"] = setting(
        "sentence", "sentence: each line is a sequence. stream: the corpus is one running text."
    )
    context_length: int = setting(
        64, "Largest number of predicted tokens per stored row, sentence mode.", ge=1, le=65_536
    )
    long_lines: Literal["continue", "truncate"] = setting(
        "continue",
        "What to do with a line of more predicted tokens than context_length, sentence mode. continue: the next row "
        "goes on with it. truncate: its first row is stored, the rest is left out; bits per byte pay for it.",
        added_later=True,
    )
    block_length: int = setting(128, "Number of predicted tokens per stored row, stream mode.", ge=2, le=1_048_576)
    memory_mebibytes: int = setting(
        128, "Memory limit of DuckDB while it stores sequences, in MiB.", ge=16, le=1_048_576, changes_results=False
    )
    parts_above_bytes: NonNegativeInt = setting(
        4 << 30,
        "Size of a corpus, in bytes of UTF-8, above which its sequences are stored as Parquet parts beside the DuckDB "
        "file. 0: always.",
        changes_results=False,
    )

    @model_validator(mode="after")
    def check_long_lines(self) -> "SequencesConfig":
        if self.long_lines == "truncate" and self.mode == "stream":
            raise ValueError("long_lines=truncate needs mode=sentence: a running text has no long lines")
        return self


def warn_at(default: float | None, condition: str) -> Any:
    """Return a setting for the fraction above which a gate warns."""
    return setting(default, f"Warn {condition} null: never.", ge=0.0, le=1.0, changes_results=False)


def stop_at(default: float | None, condition: str) -> Any:
    """Return a setting for the fraction above which a gate stops the run."""
    return setting(default, f"Stop {condition} null: never.", ge=0.0, le=1.0, changes_results=False)


SHRINKAGE = "if the corpus is smaller than the champion's by more than this share."
UNKNOWN_WORDS = "if more than this share of a held-out split's tokens are unknown words."
DUPLICATES = (
    "if more than this share of the training rows (stream mode: documents) repeat another, or of a held-out split's "
    "text repeats lines of its own."
)
LEAKAGE = "if more than this share of a held-out split's text also occurs in the training text, line by line."
DRIFT = "if the distance between the character frequencies of this and the champion's text is larger."


class GatesConfig(Section):
    """Checks before training. Above *_warn_at a check warns. Above *_stop_at the run ends, and the champion is kept."""

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
