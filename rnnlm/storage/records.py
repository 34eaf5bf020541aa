"""Frozen records that stages up to training pass on: paths, digests and counts, never tensors or connections."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
LOSSES = "losses"  # folder within a run: the loss of every token of the test split


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class StageRecord(Record):
    """The fields that every stage reports: whether it was skipped, and its seconds."""

    skipped: bool = False  # True if the stage found its verified output
    seconds: float = 0.0  # wall time of the stage, skipped or not


class LeftOut(Record):
    """A file or folder of a source that was left out, or read with changes."""

    name: str
    reason: str
    read: bool = False  # True: with changes, such as a guessed encoding, or in part


class TrainingSample(Record):
    """The training documents that are used: see corpora/training_sample.py."""

    below: str  # the sha256 of each is less than this; hexadecimal, its first 8 bytes
    byte_count: int


class CorpusRecord(StageRecord):
    """Raw text under `folder`: `text.txt`, or one `<split>.txt` for each given split."""

    name: str
    digest: str  # sha256 of the text's bytes, hexadecimal
    folder: Path
    files: dict[str, str]  # "text" or a split's name → file name inside the folder
    shares: tuple[float, float]  # valid, test: of the documents, for splits that `files` does not give
    document_lines: int | None = None  # most lines of a document; None: DOCUMENT_LINES of rnnlm/corpora/splits.py
    sample: TrainingSample | None = None  # None: all training documents are used
    corpus_bytes: int
    before: str = ""  # digest of the corpus that the source had before; "" if it is the first
    source_counts: dict[str, int] = {}  # "text" or a split's name → files, archive members and table rows in it
    source: str  # passwords and signatures redacted
    freshness: str = ""  # of a remote text: since when it is unchanged, or that its server was unavailable
    licence: str = ""
    left_out: tuple[LeftOut, ...] = ()  # files of the source that were not read

    @property
    def split_rule(self) -> tuple[float | str, ...]:
        """The settings that split the text: a part of the keys of tokenizers and datasets."""
        rule: tuple[float | str, ...] = self.shares
        if self.document_lines is not None:
            rule = (*rule, self.document_lines)
        return rule if self.sample is None else (*rule, f"train below {self.sample.below}")

    @property
    def carved_shares(self) -> dict[Split, float]:
        """Share of the documents of each split that the source does not give; digests decide which."""
        shares: dict[Split, float] = dict(zip(SPLITS[1:], self.shares, strict=True))
        return {split: share for split, share in shares.items() if split not in self.files}


class TokenizerRecord(StageRecord):
    digest: str
    folder: Path  # loadable by transformers.AutoTokenizer
    kind: str
    vocabulary_size: int


class DatasetRecord(StageRecord):
    """A DuckDB file with its tokenizer beside it; a large dataset also has its sequences in Parquet parts there."""

    dataset_id: str
    folder: Path
    corpus_name: str
    corpus_digest: str
    mode: Literal["sentence", "stream"]
    long_lines: Literal["continue", "truncate"] = "continue"  # see sequences/truncation.py
    vocabulary_size: int
    predicted_tokens: dict[Split, int]
    sequence_counts: dict[Split, int]  # stored rows

    @property
    def scored_as_text(self) -> bool:
        """Return True if the loss of its rows is that of its text as document_losses() scores it: line by line."""
        return self.mode == "sentence" and self.long_lines == "continue"

    @property
    def database(self) -> Path:
        return self.folder / "sequences.duckdb"

    @property
    def parts(self) -> Path:
        """Missing if the DuckDB file holds the sequences."""
        return self.folder / "parts"

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "tokenizer"


class StartedFrom(Record):
    """The registered version whose weights a run began with."""

    name: str
    version: int
    model_sha256: str  # of its weights
    token_rows_kept: int  # tokens of the new vocabulary that the version knows
    token_rows: int  # tokens of the new vocabulary

    def __str__(self) -> str:
        kept = f"{self.token_rows_kept:,} of {self.token_rows:,} token rows kept"
        return f"{self.name} version {self.version}: {kept}"


class ProcessChange(Record):
    """A run continued with another number of processes. It is equal to rounding, not bit by bit."""

    step: int  # optimizer steps done before
    processes: int


class EnsembleMember(Record):
    """A run whose network has a share in an ensemble's probabilities."""

    run_id: str
    shape: str  # such as `Elman network, 1 × 400, tanh`
    share: float
    validation_perplexity: float  # of this network alone
    test_perplexity: float


class RunRecord(StageRecord):
    """A finished training run: `folder/model` holds safetensors, configuration and tokenizer."""

    run_id: str
    folder: Path
    dataset_id: str
    mlflow_run_id: str | None  # None: MLflow was unavailable when training began
    trained_tokens: int
    best_validation_perplexity: float  # at `temperature`
    temperature: float = 1.0  # by which the logits are divided, already part of the weights
    counting_seconds: float | None = None  # None: the network is mixed with no counts
    started_from: StartedFrom | None = None  # None: from random weights
    process_changes: tuple[ProcessChange, ...] = ()  # in the order of their steps
    members: tuple[EnsembleMember, ...] = ()  # of an ensemble; empty: the model is one network

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"


class Sample(Record):
    prompt: str
    text: str  # the continuation, without the prompt
    tokens: int  # generated tokens, <eos> included
    whole: str = ""  # prompt and continuation as one text; "" in records of older versions
    seed: int = 0


class NightEvent(Record):
    """Something that people want to hear of: a Prefect event, on which automations act."""

    name: str  # rnnlm.SUBJECT.WHAT_HAPPENED
    resource_id: str
    resource_name: str
    message: str  # for people: one or two sentences
    labels: dict[str, str] = {}  # on the event's resource, for the triggers of automations
    payload: dict[str, Any] = {}
