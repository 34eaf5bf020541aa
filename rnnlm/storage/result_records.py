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

# The alias of a registered version. The champion is the version in use; a challenger is a version that did not replace
# it.
Alias = Literal["champion", "challenger"]


class PartScore(Record):
    """The score of one part of a mixture on a whole split, without the other part."""

    perplexity: float
    bits_per_byte: float


class CountsScore(PartScore):
    """The score of a Kneser-Ney model that was counted on the training text."""

    order: int  # The number of tokens in the longest n-gram, including the predicted one.
    seconds: float | None  # The seconds that counting the training text took, or None if they are unknown.


class SplitScore(Record):
    """The score of a model on a whole split, with two baselines for the same tokens.

    If a network is mixed with an n-gram model, perplexity and bits per byte are those of the mixture, which is the
    model that is registered.
    """

    split: str
    model: str = "network"  # The scored model: a network, an n-gram model, or a mixture of both.
    tokens: int  # The number of predicted tokens in the split.
    nll_nats_per_token: float
    perplexity: float
    bits_per_byte: float
    unknown_rate: float  # The fraction of the predicted tokens that are unknown words.
    uniform_perplexity: float
    unigram_perplexity: float
    # The fraction of the bytes in lines that also occur in the training text, or None if it is unknown.
    seen_share: float | None = None
    # The number of rows at the beginning of the split for which the perplexity is also reported.
    first_rows: int | None = None
    first_rows_perplexity: float | None = None
    # The score of the network in a mixture, or None if the model is a network without an n-gram model.
    network: PartScore | None = None
    # The score of the n-gram model, which is mixed or only compared with the network. It is None for the training
    # split.
    counts: CountsScore | None = None


class EvaluationRecord(StageRecord):
    scores: dict[str, SplitScore]  # The score of each split.


class SamplesRecord(StageRecord):
    samples: tuple[Sample, ...]


class Evidence(Record):
    """The evidence from comparing a candidate with an earlier version on the same lines; see evaluation/paired."""

    documents: int  # The number of validation documents that neither model was trained on.
    # The number of lines of these documents that are compared. It is None in versions of rnnlm 0.3 or older, which
    # compared all lines.
    lines: int | None = None
    blocks: bool = False  # Whether the bootstrap drew runs of lines, because there are few documents.
    # The number of units that the bootstrap drew: documents, runs of lines, or at most 10,000 groups of neighbouring
    # documents.
    units: int
    byte_count: int  # The number of bytes of all lines that are compared.
    candidate_nats_per_byte: float
    champion_nats_per_byte: float
    # The loss of the candidate minus that of the champion in nats per byte. It is negative if the candidate is better.
    difference: float
    # The one-sided lower and upper bounds of the difference, each of which holds with the probability `confidence`.
    lower: float
    upper: float
    confidence: float  # The confidence of each bound; see rnnlm/evaluation/paired/bootstrap.py.
    resamples: int
    comparison: int = 1  # The number of candidates that were compared with this champion, including this one.

    def relative(self, nats_per_byte: float) -> float:
        """Return a difference in nats per byte as a fraction of the earlier version's loss, or 0 if this loss is 0."""
        return nats_per_byte / self.champion_nats_per_byte if self.champion_nats_per_byte else 0.0


class ListedVersion(Record):
    """A registered version as listed by `rnnlm models`. Scores are None if another program registered the version."""

    name: str
    version: int
    aliases: tuple[str, ...]
    validation_perplexity: float | None
    test_perplexity: float | None = None
    bits_per_byte: float | None  # The version's bits per byte on the test split.
    dataset_id: str
    created: str  # The time of the version's registration in ISO 8601, UTC.


class MeanScore(Record):
    """The scores of a model on one split over several runs."""

    split: str
    model: str  # The model's name, as in SplitScore.model. The network of a mixture is also scored alone.
    perplexities: tuple[float, ...]  # The perplexities in the order of the runs.
    mean_perplexity: float
    deviation: float  # The standard deviation of the perplexities.
    # Half of the width of the mean perplexity's confidence interval; see rnnlm/evaluation/seed_scores.py.
    margin: float
    mean_bits_per_byte: float


class SeedScores(Record):
    """The scores of runs that differ only in their seed. The model of the first run is registered."""

    run_ids: tuple[str, ...]
    scores: tuple[MeanScore, ...]  # The scores on each split of the network and, if there is one, of the mixture.


class RegisteredVersion(StageRecord):
    name: str
    version: int
    alias: Alias
    reason: str
    uri: str  # The address of the version in the form models:/NAME@ALIAS.
    # The evidence of the comparison with the champion, or None if there was no champion or no line to compare.
    evidence: Evidence | None = None
    own_evidence: Evidence | None = None  # The evidence on the lines that the champion had held out from its training.
    kept: int = 0  # The number of runs in a row that kept the champion, including this one.
    kept_since: str = ""  # The time of the first of these `kept` runs, in ISO 8601, UTC.
    created: str = ""  # The time of the version's registration in ISO 8601, UTC.
    repaired: bool = False  # Whether damaged files of the registered version were written again.
    url: str = ""  # The address of the version's page in MLflow.
    before: ListedVersion | None = None  # The version registered before this one, or None if this is the first version.
    # The current champion if this version is a challenger, otherwise the champion that this version replaced.
    rival: ListedVersion | None = None


class LoggedRecord(Record):
    """The addresses of the run's page and of the page of all runs in MLflow, and the plots of the loss.

    An address is None if it is unavailable.
    """

    run_url: str | None
    run_list_url: str | None = None
    loss_curve: Path | None
    # A small plot for the summary. It is small, because Prefect's database stores one for each run.
    small_loss_curve: Path | None = None


class PreparedRecord(Record):
    """The results of the stages before training."""

    corpus: CorpusRecord
    tokenizer: TokenizerRecord
    dataset: DatasetRecord
    score_warnings: tuple[str, ...] = ()  # Warnings that the scores are misleading because held-out text is copied.


class TrainedRecord(Record):
    """The results of training and the stages after it."""

    run: RunRecord
    evaluation: EvaluationRecord
    samples: SamplesRecord
    registered: RegisteredVersion
    logged: LoggedRecord = LoggedRecord(run_url=None, loss_curve=None)
    seeds: SeedScores | None = None  # The scores of all runs, or None if there is only one run.

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
        """True if every stage was skipped, because text, settings and program are the same as in an earlier run."""
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
