"""Frozen records that stages pass on: paths, digests and counts, never tensors or connections."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Split = Literal["train", "valid", "test"]
Alias = Literal["champion", "challenger"]  # of a registered version
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
LOSSES = "losses"  # folder within a run: the loss of every token of the test split


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class StageRecord(Record):
    """The fields that every stage reports: whether it was skipped, and its seconds."""

    skipped: bool = False  # its verified output existed
    seconds: float = 0.0  # wall time of the stage, skipped or not


class LeftOut(Record):
    """A file or folder of a source that was not read, or not as it stands."""

    name: str
    reason: str
    read: bool = False  # True: all the same, but not as it stands, or not whole


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
    document_lines: int | None = None  # of the longest document; None: DOCUMENT_LINES of rnnlm/corpora/splits.py
    sample: TrainingSample | None = None  # None: all training documents are used
    corpus_bytes: int
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
        """True if the loss of its rows is that of its text as document_losses() scores it: whole lines, each alone."""
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


class RunRecord(StageRecord):
    """A finished training run: `folder/model` holds safetensors, configuration and tokenizer."""

    run_id: str
    folder: Path
    dataset_id: str
    mlflow_run_id: str | None  # None: MLflow was unavailable when training began
    trained_tokens: int
    best_validation_perplexity: float  # at `temperature`
    temperature: float = 1.0  # already divided into the weights of the head
    counting_seconds: float | None = None  # None: the network is mixed with no counts
    started_from: StartedFrom | None = None  # None: from random weights
    process_changes: tuple[ProcessChange, ...] = ()  # in the order of their steps

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"


class PartScore(Record):
    """The score of a part of a model, alone, on a whole split."""

    perplexity: float
    bits_per_byte: float


class CountsScore(PartScore):
    """The score of a Kneser-Ney model of the training text."""

    order: int  # tokens of the longest n-gram, the predicted one included
    seconds: float | None  # to count the training text; None: unknown


class SplitScore(Record):
    """The score of a model on a whole split, with two baselines on the same tokens.

    Of a network mixed with counts, perplexity and bits per byte are those of the mixture, which is what is registered.
    """

    split: str
    model: str = "network"  # what is scored: a network, counts, or both mixed
    tokens: int  # predicted tokens
    nll_nats_per_token: float
    perplexity: float
    bits_per_byte: float
    unknown_rate: float  # share of predicted tokens that are unknown words
    uniform_perplexity: float
    unigram_perplexity: float
    seen_share: float | None = None  # of the bytes, in lines that the training text holds; None: unknown
    first_rows: int | None = None  # at the beginning of the split, whose perplexity is reported beside it
    first_rows_perplexity: float | None = None
    network: PartScore | None = None  # of a mixture; None: the model is a network alone
    counts: CountsScore | None = None  # of the mixture, or counted only to be compared; None: the training split


class EvaluationRecord(StageRecord):
    scores: dict[str, SplitScore]  # by split


class GradientFlowRecord(StageRecord):
    """norms: layer (bottom first) → steps back from the loss → gradient norm; see rnnlm/lab/probes/gradients.py."""

    norms: tuple[tuple[float, ...], ...]
    rows: int
    picture: Path


class RightByPosition(Record):
    """By position p = 0, 1, … of the predicted token, over rows of at least that length.

    right: share of rows whose most likely token at p is correct, given all tokens before it.
    exact: share of rows that are correct at every position from given_tokens to p; None before given_tokens. Greedy
    continuations from given_tokens are exact in the same rows: while they are correct, the model reads the same tokens.
    """

    rows: tuple[int, ...]
    right: tuple[float, ...]
    exact: tuple[float | None, ...]
    given_tokens: int


class PositionsRecord(RightByPosition, StageRecord):
    longest_trained: int  # tokens of the training split's longest row, without <eos>
    picture: Path


class Sample(Record):
    prompt: str
    text: str  # the continuation, without the prompt
    tokens: int  # generated tokens, <eos> included
    whole: str = ""  # prompt and continuation as one text; "" in records of older versions
    seed: int = 0


class SamplesRecord(StageRecord):
    samples: tuple[Sample, ...]


class Evidence(Record):
    """Losses of a candidate and an earlier version on the same documents; see rnnlm/evaluation/paired."""

    documents: int  # of validation text that neither was trained on, or blocks of their lines
    blocks: bool = False
    units: int  # drawn by the bootstrap: the documents, or at most 10,000 groups of them
    byte_count: int  # of all documents
    candidate_nats_per_byte: float
    champion_nats_per_byte: float
    difference: float  # candidate minus champion, nats per byte: negative if the candidate is better
    lower: float  # one-sided bounds, each at `confidence`
    upper: float
    confidence: float  # see rnnlm/evaluation/paired/bootstrap.py
    resamples: int
    comparison: int = 1  # its number with this champion


class NightEvent(Record):
    """Something that people want to hear of: a Prefect event, on which automations act."""

    name: str  # rnnlm.SUBJECT.WHAT_HAPPENED
    resource_id: str
    resource_name: str
    message: str  # for people: one or two sentences
    labels: dict[str, str] = {}  # on the event's resource, for the triggers of automations
    payload: dict[str, Any] = {}


class ListedVersion(Record):
    """A registered version as `rnnlm models` lists it. Figures are None if another program registered it."""

    name: str
    version: int
    aliases: tuple[str, ...]
    validation_perplexity: float | None
    test_perplexity: float | None = None
    bits_per_byte: float | None  # of the test split
    dataset_id: str
    created: str  # ISO 8601, UTC


class RegisteredVersion(StageRecord):
    name: str
    version: int
    alias: Alias
    reason: str
    uri: str  # models:/NAME@ALIAS
    evidence: Evidence | None = None  # None: no champion, or no documents to compare on
    created: str = ""  # ISO 8601, UTC
    url: str = ""  # of its page in MLflow
    before: ListedVersion | None = None  # the version registered before it; None: it is the first
    rival: ListedVersion | None = None  # of a challenger the champion now, of a champion the one that it replaced


class ExportRecord(Record):
    """A model as an ONNX file with its tokenizer and special tokens; see rnnlm/models/onnx_graph.py."""

    file: Path
    tokenizer: Path
    special_tokens: Path
    file_bytes: int
    largest_difference: float  # between the logits of ONNX Runtime and torch
    without_counts: bool = False  # the model is a mixture, and the file its network alone


class ArpaRecord(Record):
    """A model's counts as an ARPA file; see rnnlm/models/arpa.py."""

    file: Path
    file_bytes: int
    ngrams: tuple[int, ...]  # by order, from 1
    without_network: bool  # the model is a mixture, and the file its counts alone


class HarnessMetric(Record):
    """A metric of EleutherAI's lm-evaluation-harness."""

    task: str
    metric: str
    filter: str  # applied by the harness to the answers; `none`
    value: float
    standard_error: float | None  # None: not reported
    documents: int


class HarnessRecord(Record):
    lm_eval_version: str
    metrics: tuple[HarnessMetric, ...]


class LoggedRecord(Record):
    """The page of a run on the tracking server, None if the server was unavailable, and the plots of its loss."""

    run_url: str | None
    loss_curve: Path | None
    small_loss_curve: Path | None = None  # for the summary, which Prefect stores in its database each night


class PreparedRecord(Record):
    """Results of the stages before training."""

    corpus: CorpusRecord
    tokenizer: TokenizerRecord
    dataset: DatasetRecord
    score_warnings: tuple[str, ...] = ()  # of copied text, which makes the scores mislead


class TrainedRecord(Record):
    """Results of training and the stages after it."""

    run: RunRecord
    evaluation: EvaluationRecord
    samples: SamplesRecord
    registered: RegisteredVersion
    logged: LoggedRecord = LoggedRecord(run_url=None, loss_curve=None)

    @property
    def stages(self) -> dict[str, StageRecord]:
        """Stage name → its record, in the order of the pipeline."""
        return {
            "training": self.run,
            "evaluation": self.evaluation,
            "samples": self.samples,
            "registration": self.registered,
        }

    @property
    def is_unchanged(self) -> bool:
        """Every stage was skipped: text, settings and program are those of an earlier run."""
        return all(stage.skipped for stage in self.stages.values())

    @property
    def is_promoted(self) -> bool:
        """The version became champion in this run."""
        return self.registered.alias == "champion" and not self.registered.skipped


class PipelineRecord(TrainedRecord, PreparedRecord):
    """Results of a pipeline run."""

    @property
    def stages(self) -> dict[str, StageRecord]:
        prepared = {"corpus": self.corpus, "tokenizer": self.tokenizer, "sequences": self.dataset}
        return {**prepared, **super().stages}
