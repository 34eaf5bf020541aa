"""Frozen references that stages hand to each other: paths, digests and counts, never tensors or connections."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
LOSSES = "losses"  # in a run's folder: the loss of every token of the test split


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class StageRecord(Record):
    """What every stage says of itself."""

    skipped: bool = False  # its verified output was there already
    seconds: float = 0.0  # wall time of the stage, skipped or not


class CorpusRecord(StageRecord):
    """Raw text under `folder`: `text.txt`, or one `<split>.txt` for each given split."""

    name: str
    digest: str  # sha256 of the text's bytes, hexadecimal
    folder: Path
    files: dict[str, str]  # "text" or a split's name → file name inside the folder
    corpus_bytes: int
    source_counts: dict[str, int] = {}  # "text" or a split's name → files, archive members and table rows in it
    source: str  # without passwords and signatures
    freshness: str = ""  # of a remote text: since when it is unchanged, or that it could not be asked for
    licence: str = ""


class TokenizerRecord(StageRecord):
    digest: str
    folder: Path  # loadable by transformers.AutoTokenizer
    kind: str
    vocabulary_size: int


class DatasetRecord(StageRecord):
    """One DuckDB file with its tokenizer beside it."""

    dataset_id: str
    folder: Path
    corpus_name: str
    corpus_digest: str
    mode: Literal["sentence", "stream"]
    vocabulary_size: int
    predicted_tokens: dict[Split, int]
    sequence_counts: dict[Split, int]  # stored rows

    @property
    def database(self) -> Path:
        return self.folder / "sequences.duckdb"

    @property
    def tokenizer_folder(self) -> Path:
        return self.folder / "tokenizer"


class RunRecord(StageRecord):
    """A finished training run: `folder/model` holds safetensors, configuration and tokenizer."""

    run_id: str
    folder: Path
    dataset_id: str
    mlflow_run_id: str | None  # None: MLflow could not be reached when training began
    trained_tokens: int
    best_validation_perplexity: float  # with its temperature
    temperature: float = 1.0  # that the logits were divided by, in the weights of the model

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"


class SplitScore(Record):
    """How well a model predicts one whole split, beside two baselines on the same tokens."""

    split: str
    tokens: int  # predicted tokens
    nll_nats_per_token: float
    perplexity: float
    bits_per_byte: float
    unknown_rate: float  # share of predicted tokens that stand for a word the model cannot spell
    uniform_perplexity: float
    unigram_perplexity: float
    seen_share: float | None = None  # of the bytes, in lines of the training text; None: not measured, not known


class EvaluationRecord(StageRecord):
    scores: dict[str, SplitScore]  # by split


class GradientFlowRecord(StageRecord):
    """norms: layer, bottom first → steps back from the loss → norm of the gradient; see rnnlm/probes/gradients.py."""

    norms: tuple[tuple[float, ...], ...]
    rows: int
    picture: Path


class PositionsRecord(StageRecord):
    """Right guesses by position in the row; see rnnlm/probes/positions.py."""

    rows: tuple[int, ...]
    right: tuple[float, ...]
    exact: tuple[float | None, ...]
    given_tokens: int
    longest_trained: int  # tokens of the training split's longest row; as in the positions, <eos> is not counted
    picture: Path


class Sample(Record):
    prompt: str
    text: str  # the continuation alone
    tokens: int  # generated tokens, <eos> included


class SamplesRecord(StageRecord):
    samples: tuple[Sample, ...]


class Evidence(Record):
    """What a candidate and the champion cost on the same documents; see rnnlm/evaluation/paired."""

    documents: int  # of validation text that the training of neither has seen
    units: int  # drawn by the bootstrap: the documents, or 10,000 runs of them where there are more
    byte_count: int  # of all documents
    candidate_nats_per_byte: float
    champion_nats_per_byte: float
    difference: float  # candidate less champion, nats per byte: negative where the candidate is better
    lower: float  # one-sided bounds at `confidence`, each by itself
    upper: float
    confidence: float  # of this comparison: see rnnlm/evaluation/paired/bootstrap.py
    resamples: int
    comparison: int = 1  # the how-manieth with this champion


class RegisteredVersion(StageRecord):
    name: str
    version: int
    alias: Literal["champion", "challenger"]
    reason: str
    uri: str  # models:/NAME@ALIAS
    evidence: Evidence | None = None  # None: there was nothing to compare, or nothing to compare on


class ModelVersion(Record):
    """A registered version as `rnnlm models` lists it."""

    name: str
    version: int
    aliases: tuple[str, ...]
    validation_perplexity: float | None
    bits_per_byte: float | None  # of the test split
    dataset_id: str
    created: str  # ISO 8601, UTC


class ExportRecord(Record):
    """A model as an ONNX file, with what it takes to use it beside it; see rnnlm/models/onnx_graph.py."""

    file: Path
    tokenizer: Path
    special_tokens: Path
    file_bytes: int
    largest_difference: float  # of a logit in onnxruntime from torch's: onnx_graph.largest_difference


class HarnessMetric(Record):
    """One figure of EleutherAI's harness."""

    task: str
    metric: str
    filter: str  # what the harness did to the answers first; `none`
    value: float
    standard_error: float | None  # None: the harness gives none
    documents: int


class HarnessRecord(Record):
    lm_eval_version: str
    metrics: tuple[HarnessMetric, ...]


class LoggedRecord(Record):
    """Where the tracking system shows a run; None where it could not be reached."""

    run_url: str | None
    loss_curve: Path | None


class PreparedRecord(Record):
    """What the stages before training leave behind."""

    corpus: CorpusRecord
    tokenizer: TokenizerRecord
    dataset: DatasetRecord


class TrainedRecord(Record):
    """What training and the stages after it leave behind."""

    run: RunRecord
    evaluation: EvaluationRecord
    samples: SamplesRecord
    registered: RegisteredVersion


class PipelineRecord(Record):
    """What a pipeline run leaves behind: enough to find everything else."""

    corpus: CorpusRecord
    tokenizer: TokenizerRecord
    dataset: DatasetRecord
    run: RunRecord
    evaluation: EvaluationRecord
    samples: SamplesRecord
    registered: RegisteredVersion

    @property
    def stages(self) -> dict[str, StageRecord]:
        """Stage name → its record, in the order of the pipeline."""
        return {
            "corpus": self.corpus,
            "tokenizer": self.tokenizer,
            "sequences": self.dataset,
            "training": self.run,
            "evaluation": self.evaluation,
            "samples": self.samples,
            "registration": self.registered,
        }
