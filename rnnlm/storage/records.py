"""Frozen records that the stages up to training return. The records contain paths, digests and numbers."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
LOSSES = "losses"  # The subfolder of a run's folder with the loss of every token of the test split.


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class StageRecord(Record):
    """The fields that the records of all stages have."""

    skipped: bool = False  # True if the stage found its output and verified it.
    seconds: float = 0.0  # The wall time of the stage in seconds, even if the stage was skipped.


class LeftOut(Record):
    """A file or folder that was left out when its source was read, or whose text was changed."""

    name: str
    reason: str
    # True if the file was read, but with changes (for instance, in a guessed encoding) or only in part.
    read: bool = False


class TrainingSample(Record):
    """The part of the training documents that is used; see corpora/training_sample.py."""

    # The upper bound of the sample. The first 8 bytes of each sampled document's sha256, in hexadecimal, are below it.
    below: str
    byte_count: int


class CorpusRecord(StageRecord):
    """A corpus, which is raw text in `folder`: `text.txt`, or one `<split>.txt` for each given split."""

    name: str
    digest: str  # The sha256 of the text's bytes in hexadecimal.
    folder: Path
    files: dict[str, str]  # The names of the files inside the folder. The keys are "text" or the names of splits.
    # The fractions of documents for the splits valid and test, if the source does not provide these splits.
    shares: tuple[float, float]
    # The largest number of lines of a document, or None for DOCUMENT_LINES of rnnlm/corpora/splits.py.
    document_lines: int | None = None
    sample: TrainingSample | None = None  # The sample of the training documents, or None if all of them are used.
    corpus_bytes: int
    before: str = ""  # The digest of the previous corpus of this source, or "" if there is none.
    # The number of files, archive members and table rows together, for "text" or for each split.
    source_counts: dict[str, int] = {}
    source: str  # The source of the text, with redacted passwords and signatures.
    # A message that says since when a remote text is unchanged, or that its server could not be reached.
    freshness: str = ""
    licence: str = ""
    left_out: tuple[LeftOut, ...] = ()  # The files of the source that were not read.

    @property
    def split_rule(self) -> tuple[float | str, ...]:
        """The settings that determine the splits of the text, on which the ids of tokenizers and datasets depend."""
        rule: tuple[float | str, ...] = self.shares
        if self.document_lines is not None:
            rule = (*rule, self.document_lines)
        return rule if self.sample is None else (*rule, f"train below {self.sample.below}")

    @property
    def carved_shares(self) -> dict[Split, float]:
        """The fraction of documents for each split that the source does not provide.

        The digests of the documents determine which of them belong to the split.
        """
        shares: dict[Split, float] = dict(zip(SPLITS[1:], self.shares, strict=True))
        return {split: share for split, share in shares.items() if split not in self.files}


class TokenizerRecord(StageRecord):
    digest: str
    folder: Path  # The tokenizer's folder, which transformers.AutoTokenizer can load.
    kind: str
    vocabulary_size: int


class DatasetRecord(StageRecord):
    """A dataset, which is a DuckDB file with its tokenizer. A large dataset also has its sequences in Parquet parts."""

    dataset_id: str
    folder: Path
    corpus_name: str
    corpus_digest: str
    mode: Literal["sentence", "stream"]
    # Whether long lines are continued in further rows or truncated; see sequences/truncation.py.
    long_lines: Literal["continue", "truncate"] = "continue"
    vocabulary_size: int
    predicted_tokens: dict[Split, int]
    sequence_counts: dict[Split, int]  # The number of stored rows of each split.

    @property
    def scored_as_text(self) -> bool:
        """True if document_losses() computes the same losses for the lines of the text as for the stored rows."""
        return self.mode == "sentence" and self.long_lines == "continue"

    @property
    def database(self) -> Path:
        return self.folder / "sequences.duckdb"

    @property
    def parts(self) -> Path:
        """The folder of the Parquet parts. It does not exist if the DuckDB file contains the sequences."""
        return self.folder / "parts"

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "tokenizer"


class StartedFrom(Record):
    """The registered version whose weights were the initial weights of a run."""

    name: str
    version: int
    model_sha256: str  # The sha256 of the version's weights.
    token_rows_kept: int  # The number of tokens in the new vocabulary that also belong to the version's vocabulary.
    token_rows: int  # The number of tokens in the new vocabulary.

    def __str__(self) -> str:
        kept = f"{self.token_rows_kept:,} of {self.token_rows:,} token rows kept"
        return f"{self.name} version {self.version}: {kept}"


class ProcessChange(Record):
    """A change of the number of processes when a run was resumed.

    After such a change, the result is the same up to rounding, but not bit by bit.
    """

    step: int  # The number of optimizer steps before the number of processes changed.
    processes: int


class EnsembleMember(Record):
    """A run whose network is part of an ensemble."""

    run_id: str
    shape: str  # A description of the network, such as `Elman network, 1 × 400, tanh`.
    share: float
    validation_perplexity: float  # The validation perplexity of this member alone.
    test_perplexity: float


class RunRecord(StageRecord):
    """A finished training run, whose `folder/model` contains safetensors, configuration and tokenizer."""

    run_id: str
    folder: Path
    dataset_id: str
    mlflow_run_id: str | None  # The id of the MLflow run, or None if MLflow was unavailable when training began.
    trained_tokens: int
    best_validation_perplexity: float  # The validation perplexity after dividing the logits by `temperature`.
    # The temperature of temperature scaling, by which the logits of the saved weights are already divided.
    temperature: float = 1.0
    # The seconds that counting n-grams took, or None if the network is not mixed with an n-gram model.
    counting_seconds: float | None = None
    # The model from which training started, or None if the initial weights were random.
    started_from: StartedFrom | None = None
    # The changes of the number of processes, in the order of their steps.
    process_changes: tuple[ProcessChange, ...] = ()
    members: tuple[EnsembleMember, ...] = ()  # The members of an ensemble. The tuple is empty for a single network.

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"


class Sample(Record):
    prompt: str
    text: str  # The continuation without the prompt.
    tokens: int  # The number of generated tokens, including <eos>.
    whole: str = ""  # The prompt and the continuation as one text, or "" in records of older versions.
    seed: int = 0


class NightEvent(Record):
    """An event of a nightly run about which users may want to be notified.

    It becomes a Prefect event, on which automations can act.
    """

    name: str  # The name of the event, in the form rnnlm.SUBJECT.WHAT_HAPPENED.
    resource_id: str
    resource_name: str
    message: str  # One or two sentences about the event for notifications.
    labels: dict[str, str] = {}  # Labels of the event's resource, which triggers of automations can use.
    payload: dict[str, Any] = {}
