"""Frozen records of the stages after training: scores, samples, registered versions, and a whole pipeline run."""

from pathlib import Path
from typing import Literal

from rnnlm.storage.records import (
    CorpusRecord,
    DatasetRecord,
    Record,
    RunRecord,
    Sample,
    StageRecord,
    TokenizerRecord,
)

Alias = Literal["champion", "challenger"]  # The alias of a registered version.


class PartScore(Record):
    """The score of one part of a model, alone, on a whole split."""

    perplexity: float
    bits_per_byte: float


class CountsScore(PartScore):
    """The score of a Kneser-Ney model of the training text."""

    order: int  # The number of tokens in the longest n-gram, including the predicted one.
    seconds: float | None  # The time of counting the training text, or None if it is unknown.


class SplitScore(Record):
    """The score of a model on a whole split, with two baselines for the same tokens.

    For a network mixed with an n-gram model, perplexity and bits per byte are those of the mixture, which is also
    registered.
    """

    split: str
    model: str = "network"  # The model that is scored: a network, an n-gram model, or a mixture of both.
    tokens: int  # The number of predicted tokens.
    nll_nats_per_token: float
    perplexity: float
    bits_per_byte: float
    unknown_rate: float  # The fraction of the predicted tokens that are unknown words.
    uniform_perplexity: float
    unigram_perplexity: float
    # The fraction of the bytes in lines that also occur in the training text. None means unknown.
    seen_share: float | None = None
    # The number of rows at the beginning of the split whose perplexity is reported in addition.
    first_rows: int | None = None
    first_rows_perplexity: float | None = None
    network: PartScore | None = None  # The network of a mixture. It is None if the model is a network alone.
    # The n-gram model of the mixture or for comparison. It is None for the training split.
    counts: CountsScore | None = None


class EvaluationRecord(StageRecord):
    scores: dict[str, SplitScore]  # The scores by split.


class SamplesRecord(StageRecord):
    samples: tuple[Sample, ...]


class Evidence(Record):
    """The losses of a candidate and an earlier version on the same lines; see rnnlm/evaluation/paired."""

    documents: int  # The number of validation documents that neither model was trained on.
    # The number of lines of these documents that are compared. In versions of rnnlm 0.3 or older it is None, which
    # means all.
    lines: int | None = None
    blocks: bool = False  # True if the units are runs of lines, because there are few documents.
    # The number of units that the bootstrap draws. These are documents or runs of lines, or at most 10,000 groups of
    # them.
    units: int
    byte_count: int  # The number of bytes of all lines that are compared.
    candidate_nats_per_byte: float
    champion_nats_per_byte: float
    # The loss of the candidate minus that of the champion in nats per byte. It is negative if the candidate is better.
    difference: float
    lower: float  # One-sided bounds, each with the probability `confidence`.
    upper: float
    confidence: float  # See rnnlm/evaluation/paired/bootstrap.py.
    resamples: int
    comparison: int = 1  # The number of candidates that this champion has been compared with, including this one.

    def relative(self, nats_per_byte: float) -> float:
        """Return a difference in nats per byte divided by the loss of the earlier version, or 0 if that loss is 0."""
        return nats_per_byte / self.champion_nats_per_byte if self.champion_nats_per_byte else 0.0


class ListedVersion(Record):
    """A registered version as listed by `rnnlm models`. Scores are None if another program registered the version."""

    name: str
    version: int
    aliases: tuple[str, ...]
    validation_perplexity: float | None
    test_perplexity: float | None = None
    bits_per_byte: float | None  # The bits per byte of the test split.
    dataset_id: str
    created: str  # The time in ISO 8601, UTC.


class MeanScore(Record):
    """The scores of one model on one split over several runs."""

    split: str
    model: str  # The model as in SplitScore. The networks of mixtures have scores of their own.
    perplexities: tuple[float, ...]  # The perplexities in the order of the runs.
    mean_perplexity: float
    deviation: float  # The standard deviation of the perplexities.
    margin: float  # Half of the confidence interval of their mean; see rnnlm/evaluation/seed_scores.py.
    mean_bits_per_byte: float


class SeedScores(Record):
    """The scores of runs that differ only in their seed. The first one is registered."""

    run_ids: tuple[str, ...]
    scores: tuple[MeanScore, ...]  # For each split, the scores of the network and, if there is one, of the mixture.


class RegisteredVersion(StageRecord):
    name: str
    version: int
    alias: Alias
    reason: str
    uri: str  # The form is models:/NAME@ALIAS.
    evidence: Evidence | None = None  # It is None without a champion, or without lines to compare on.
    own_evidence: Evidence | None = None  # The evidence on those lines that the champion itself had held out.
    kept: int = 0  # For how many runs in a row the champion was kept, including this one.
    kept_since: str = ""  # The time of the first of these runs in ISO 8601, UTC.
    created: str = ""  # The time in ISO 8601, UTC.
    repaired: bool = False  # True if damaged files of an earlier registration were written again.
    url: str = ""  # The address of its page in MLflow.
    before: ListedVersion | None = None  # The version registered before this one, or None if this is the first.
    # For a challenger the present champion, for a champion the version that it replaced.
    rival: ListedVersion | None = None


class LoggedRecord(Record):
    """The addresses of the pages of a run and of all runs in MLflow, or None if unavailable, and the loss plots."""

    run_url: str | None
    run_list_url: str | None = None
    loss_curve: Path | None
    # A small plot for the summary, which Prefect stores in its database after each run.
    small_loss_curve: Path | None = None


class PreparedRecord(Record):
    """The results of the stages before training."""

    corpus: CorpusRecord
    tokenizer: TokenizerRecord
    dataset: DatasetRecord
    score_warnings: tuple[str, ...] = ()  # Warnings of copied text, which makes the scores misleading.


class TrainedRecord(Record):
    """The results of training and the stages after it."""

    run: RunRecord
    evaluation: EvaluationRecord
    samples: SamplesRecord
    registered: RegisteredVersion
    logged: LoggedRecord = LoggedRecord(run_url=None, loss_curve=None)
    seeds: SeedScores | None = None  # It is None if there is only one run.

    @property
    def stages(self) -> dict[str, StageRecord]:
        """The record of each stage by its name, in the order of the pipeline."""
        return {
            "training": self.run,
            "evaluation": self.evaluation,
            "samples": self.samples,
            "registration": self.registered,
        }

    @property
    def is_unchanged(self) -> bool:
        """True if every stage was skipped, because text, settings and program are those of an earlier run."""
        return all(stage.skipped for stage in self.stages.values())

    @property
    def is_promoted(self) -> bool:
        """True if the version became champion in this run."""
        return self.registered.alias == "champion" and not (self.registered.skipped or self.registered.repaired)


class PipelineRecord(TrainedRecord, PreparedRecord):
    """The results of a pipeline run."""

    @property
    def stages(self) -> dict[str, StageRecord]:
        prepared = {"corpus": self.corpus, "tokenizer": self.tokenizer, "sequences": self.dataset}
        return {**prepared, **super().stages}
