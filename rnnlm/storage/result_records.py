"""Frozen records of the stages after training: scores, samples, registered versions, a whole run of the pipeline."""

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

Alias = Literal["champion", "challenger"]  # of a registered version


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

    For a network mixed with counts, perplexity and bits per byte are those of the mixture, which is registered.
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


class SamplesRecord(StageRecord):
    samples: tuple[Sample, ...]


class Evidence(Record):
    """Losses of a candidate and an earlier version on the same lines; see rnnlm/evaluation/paired."""

    documents: int  # of the validation split, which neither was trained on
    lines: int | None = None  # of these documents: those that judge; None: all, in a version of rnnlm 0.3 or older
    blocks: bool = False  # True: the units are runs of lines, because there are few documents
    units: int  # drawn by the bootstrap: the documents or runs of lines, or at most 10,000 groups of them
    byte_count: int  # of all judging lines
    candidate_nats_per_byte: float
    champion_nats_per_byte: float
    difference: float  # candidate minus champion, nats per byte: negative if the candidate is better
    lower: float  # one-sided bounds, each at `confidence`
    upper: float
    confidence: float  # see rnnlm/evaluation/paired/bootstrap.py
    resamples: int
    comparison: int = 1  # how many candidates this champion had met, this one included

    def relative(self, nats_per_byte: float) -> float:
        """Return a difference in nats per byte as a share of the earlier version's; 0 if that is 0."""
        return nats_per_byte / self.champion_nats_per_byte if self.champion_nats_per_byte else 0.0


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


class MeanScore(Record):
    """Scores of one model on one split over several runs."""

    split: str
    model: str  # as in SplitScore; the networks of mixtures have scores of their own
    perplexities: tuple[float, ...]  # of the runs, in order
    mean_perplexity: float
    deviation: float  # standard deviation of the perplexities
    margin: float  # half of the interval of their mean; see rnnlm/evaluation/seed_scores.py
    mean_bits_per_byte: float


class SeedScores(Record):
    """Scores of runs that differ in their seed alone; the first is the one that is registered."""

    run_ids: tuple[str, ...]
    scores: tuple[MeanScore, ...]  # for each split the network and, if counts are mixed in, the mixture


class RegisteredVersion(StageRecord):
    name: str
    version: int
    alias: Alias
    reason: str
    uri: str  # models:/NAME@ALIAS
    evidence: Evidence | None = None  # None: no champion, or no lines to compare on
    own_evidence: Evidence | None = None  # on those lines that the champion itself had held out
    kept: int = 0  # nights in a row on which the champion was kept, this one included
    kept_since: str = ""  # the first of them: ISO 8601, UTC
    created: str = ""  # ISO 8601, UTC
    repaired: bool = False  # True if damaged files of an earlier registration were written again
    url: str = ""  # of its page in MLflow
    before: ListedVersion | None = None  # the version registered before it; None: it is the first
    rival: ListedVersion | None = None  # of a challenger the champion now, of a champion the one that it replaced


class LoggedRecord(Record):
    """The pages of a run and of all runs on the tracking server, None if it was unavailable; the plots of its loss."""

    run_url: str | None
    run_list_url: str | None = None
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
    seeds: SeedScores | None = None  # None: there is one run

    @property
    def stages(self) -> dict[str, StageRecord]:
        """Return each stage's record by its name, in the order of the pipeline."""
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
        return self.registered.alias == "champion" and not (self.registered.skipped or self.registered.repaired)


class PipelineRecord(TrainedRecord, PreparedRecord):
    """Results of a pipeline run."""

    @property
    def stages(self) -> dict[str, StageRecord]:
        prepared = {"corpus": self.corpus, "tokenizer": self.tokenizer, "sequences": self.dataset}
        return {**prepared, **super().stages}
