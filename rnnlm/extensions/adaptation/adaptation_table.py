"""Compare a network's plain perplexity with its perplexity under test-time adaptation, in one table.

Settings can be tuned by grid search on the validation split. The test split is never used for tuning. For dynamic
evaluation, the rate is tuned first and then the decay at that rate. For the cache, size, theta and mixture weight are
tuned together. An ensemble adapts as a single model: its cache compares the concatenated hidden states of all networks,
and all networks learn from the loss of the averaged prediction.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from rnnlm.config import CorpusConfig
from rnnlm.display.text_layout import TableRows
from rnnlm.errors import ConfigError, ModelError
from rnnlm.evaluation.count_shares import (
    COMPARED_ORDER,
    best_share,
    best_shares,
    count_training_split,
    mean_nll,
    split_log_probabilities,
)
from rnnlm.evaluation.external_corpus import open_corpus
from rnnlm.evaluation.score_tables import SPLIT_NAMES
from rnnlm.evaluation.token_losses import joined_nll, network_nll_of_split
from rnnlm.extensions.adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.extensions.adaptation.dynamic_evaluation import GradientRms, measure_gradient_rms
from rnnlm.extensions.adaptation.sequential_scoring import (
    NeuralCache,
    SequentialScores,
    joined_scores,
    read_in_order,
    score_in_order,
    segments,
)
from rnnlm.metrics import perplexity
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import mixed
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, Record, Split

logger = logging.getLogger(__name__)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
DECAYS = (0.0, 0.0001, 0.001, 0.01, 0.03)
THETAS = (0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
SIZES = (500, 1_000, 2_000)
TUNING_TOKENS = 20_000  # The number of validation tokens on which learning rates and cache settings are compared.
# The number of validation tokens on which decays are compared. It is large, because only a long text shows that the
# weights drift if the decay is too weak.
DECAY_TOKENS = 100_000


@dataclass(frozen=True)
class Adaptations:
    """The adaptations to measure. An adaptation that is None is left out."""

    dynamic: DynamicConfig | None = None
    cache: CacheConfig | None = None
    kneser_ney: bool = False  # Whether the network is interpolated with an n-gram model of the training split.
    tune: bool = False  # Whether rate, decay, size, theta and share are chosen on the validation split.

    @property
    def needs_other_splits(self) -> bool:
        """True if an adaptation needs the validation or the training split besides the scored split."""
        scaled = self.dynamic is not None and self.dynamic.scaled
        return self.tune or scaled or self.kneser_ney


class Variant(Record):
    name: str  # The name of the row, such as "static" or "dynamic + cache".
    nll_nats_per_token: float
    perplexity: float
    settings: dict[str, float]


class AdaptationTable(Record):
    split: str
    tokens: int
    variants: tuple[Variant, ...]  # The rows of the table. The plain model comes first.
    # The fraction of the bytes in lines that also occur in the training text; see SplitScore.seen_share.
    seen_share: float | None = None

    @property
    def rows(self) -> TableRows:
        """The rows of the printed table, one per variant. The plain model comes first."""
        static = self.variants[0].perplexity
        return [
            {
                "model": variant.name,
                "tokens": f"{self.tokens:,}",
                f"{SPLIT_NAMES[self.split]} perplexity": f"{variant.perplexity:.2f}",
                "change": f"{variant.perplexity / static - 1:+.1%}" if index else "",
                "settings": " ".join(f"{name}={value:.4g}" for name, value in variant.settings.items()),
            }
            for index, variant in enumerate(self.variants)
        ]


def compare_on_corpus(
    home: Home, folder: Path, config: CorpusConfig, wanted: Adaptations, split: Split | None = None
) -> AdaptationTable:
    """Compare a model's plain perplexity on a split of a corpus with its perplexity under test-time adaptation.

    Raise ConfigError if an adaptation needs the training or the validation split and the scored split is not `test`.
    Raise ModelError if the model is only an n-gram model.
    """
    opened = open_corpus(home, folder, config, split, needs_all_splits=wanted.needs_other_splits)
    if opened.model.mixture is not None and opened.model.mixture.is_alone:
        raise ModelError(
            f"{folder}: the model is only n-gram counts; --dynamic, --cache and --interpolate adapt a network"
        )
    if wanted.needs_other_splits and opened.split != "test":
        raise ConfigError(
            f"{config.public_source}: --tune, --interpolate and --dynamic-scaled learn from the train and valid\n"
            f"splits and report on the test split, not on {opened.reported_as}; give --split test"
        )
    return opened.reported(measure_adaptations(opened.model, opened.dataset, opened.split, wanted))


def measure_adaptations(
    model: LanguageModel, dataset: DatasetRecord, split: Split, wanted: Adaptations
) -> AdaptationTable:
    """Measure the perplexity of a whole split, first with the plain model and then with each requested adaptation.

    Raise ConfigError if the model diverges.
    """
    reader = choose_settings(model, dataset, wanted)
    dynamic, cache = reader.dynamic, reader.cache
    static = reader.score_static(split)
    # Without dynamic evaluation, the static scores are used, because the network does not change.
    adapted = reader.score(split) if dynamic else static
    rows = [variant("static", static.model, {})]
    if dynamic:
        rows.append(variant("dynamic", adapted.model, dict(dynamic)))
    if cache:
        rows.append(variant("cache", mixed(*static, cache.share), dict(cache)))
    if dynamic and cache:
        # The combination uses the settings of the rows "dynamic" and "cache", and is not tuned again.
        rows.append(variant("dynamic + cache", mixed(*adapted, cache.share), {}))
    if wanted.kneser_ney:
        counts, _ = count_training_split(dataset, COMPARED_ORDER)
        of_counts = {part: split_log_probabilities(counts, dataset, part)[0] for part in ("valid", split)}
        on_valid = reader.score_static("valid")
        share = best_share(on_valid.model, of_counts["valid"])
        together = mixed(static.model, of_counts[split], share)
        rows.append(variant(f"with {COMPARED_ORDER}-gram Kneser-Ney", together, {"share": share}))
        if dynamic or cache:
            on_valid = reader.score("valid") if dynamic else on_valid
            parts = [*on_valid, of_counts["valid"]], [*adapted, of_counts[split]]
            rows.append(mixture_of_all(f"{rows[-2].name} + counts", *parts))
    return AdaptationTable(split=split, tokens=len(static.model), variants=tuple(rows))


@dataclass(frozen=True)
class AdaptiveReader:
    """A model that adapts to the text it reads. Its settings are fixed."""

    model: LanguageModel
    dataset: DatasetRecord
    dynamic: DynamicConfig | None
    cache: CacheConfig | None
    gradient_rms: GradientRms | None
    tuned: bool

    def score(self, split: Split) -> SequentialScores:
        text, mode = StoredSplit(self.dataset, split), self.dataset.mode
        scores = score_in_order(self.model, text, mode, self.dynamic, self.cache, self.gradient_rms)
        if self.dynamic:
            refuse_divergence(scores.model, self.dynamic, self.tuned)
        return scores

    def score_static(self, split: Split) -> SequentialScores:
        """Return the network's scores without dynamic evaluation, and those of the cache if one is configured."""
        if self.cache is None:
            return SequentialScores(static_log_probabilities(self.model, self.dataset, split), np.zeros(0))
        return replace(self, dynamic=None).score(split)


def choose_settings(model: LanguageModel, dataset: DatasetRecord, wanted: Adaptations) -> AdaptiveReader:
    """Return a reader with the settings of the wanted adaptations, tuned on the validation split if requested."""
    dynamic, cache, mode, gradient_rms = wanted.dynamic, wanted.cache, dataset.mode, None
    valid = StoredSplit(dataset, "valid")
    if dynamic and dynamic.scaled:
        train = segments(StoredSplit(dataset, "train"), mode, dynamic.segment_length)
        gradient_rms = measure_gradient_rms(model, train, dynamic.segment_length)
    if wanted.tune and dynamic:
        dynamic = tuned_dynamic(model, valid, mode, dynamic, gradient_rms)
    if wanted.tune and cache:
        cache = tuned_cache(model, valid, mode, cache)
    return AdaptiveReader(model, dataset, dynamic, cache, gradient_rms, wanted.tune)


def mixture_of_all(name: str, on_valid: list[np.ndarray], here: list[np.ndarray]) -> Variant:
    """Return the row of a mixture of network, cache and n-gram model, with weights fitted on the validation split.

    Args:
        name: Name of the row.
        on_valid: Log-probabilities of the validation tokens by network, cache and n-gram model, (tokens,) each. The
            array of the cache is empty if there is no cache.
        here: Log-probabilities of the tokens of the scored split, in the same form as `on_valid`.
    """
    there = [place for place, part in enumerate(here) if len(part)]
    shares = best_shares(-np.stack([on_valid[place] for place in there]))
    together = logsumexp(np.stack([here[place] for place in there]), axis=0, b=shares[:, None])
    names = [("network", "cache", "counts")[place] for place in there]
    return variant(name, together, dict(zip(names, shares.tolist(), strict=True)))


def static_log_probabilities(model: LanguageModel, dataset: DatasetRecord, split: Split) -> np.ndarray:
    """Return the log-probabilities by the unadapted network in the order of the text, (tokens,) float64."""
    return -joined_nll(network_nll_of_split(model, StoredSplit(dataset, split), dataset.mode)).astype(np.float64)


def variant(name: str, log_probabilities: np.ndarray, settings: dict[str, float]) -> Variant:
    nats = mean_nll(log_probabilities)
    return Variant(name=name, nll_nats_per_token=nats, perplexity=perplexity(nats), settings=settings)


def refuse_divergence(log_probabilities: np.ndarray, config: DynamicConfig, tuned: bool) -> None:
    if not np.isfinite(log_probabilities).all():
        advice = "give a lower --dynamic-rate instead of --tune" if tuned else "give a lower rate, or --tune"
        raise ConfigError(
            f"dynamic evaluation: the model diverged at --dynamic-rate {config.rate:g} and "
            f"--dynamic-decay {config.decay:g};\n{advice}"
        )


def tuned_dynamic(
    model: LanguageModel, valid: RowSource, mode: Mode, start: DynamicConfig, gradient_rms: GradientRms | None = None
) -> DynamicConfig:
    """Return `start` with the rate and the decay that give the lowest loss on the validation text."""

    def loss(rate: float, decay: float, tokens: int) -> float:
        config = start.model_copy(update={"rate": rate, "decay": decay})
        scores = score_in_order(model, valid, mode, config, gradient_rms=gradient_rms, maximum_tokens=tokens)
        nats = mean_nll(scores.model)
        logger.info("dynamic evaluation with rate %g and decay %g: %.4f nats per token", rate, decay, nats)
        return nats if np.isfinite(nats) else np.inf

    rate = best_of("rate", RATES, lambda rate: loss(rate, start.decay, TUNING_TOKENS))
    decay = best_of("decay", DECAYS, lambda decay: loss(rate, decay, DECAY_TOKENS))
    return start.model_copy(update={"rate": rate, "decay": decay})


def tuned_cache(model: LanguageModel, valid: RowSource, mode: Mode, start: CacheConfig) -> CacheConfig:
    """Return `start` with the size, theta and mixture weight that give the lowest loss on the validation text."""
    segments_read = list(read_in_order(model, valid, mode, TUNING_TOKENS))
    of_network = joined_scores(segment.log_probabilities for segment in segments_read)
    shares: dict[tuple[int, float], float] = {}

    def loss(size: int, theta: float) -> float:
        memory = NeuralCache(size, theta)
        of_cache = joined_scores(memory.log_probabilities(*segment) for segment in segments_read)
        share = shares[size, theta] = best_share(of_network, of_cache)
        nats = mean_nll(mixed(of_network, of_cache, share))
        logger.info("cache with size %d, theta %g and share %.4f: %.4f nats per token", size, theta, share, nats)
        return nats

    # Every pair is tried, because the best theta depends on the size. A larger cache contains more irrelevant words,
    # and only a larger theta suppresses them.
    losses = {(size, theta): loss(size, theta) for size in SIZES for theta in THETAS}
    size, theta = min(losses, key=losses.__getitem__)
    warn_of_edge("theta", theta, THETAS)
    return start.model_copy(update={"size": size, "theta": theta, "share": shares[size, theta]})


def best_of(name: str, grid: tuple[float, ...], loss: Callable[[float], float]) -> float:
    """Return the value of an ascending grid with the lowest loss, and warn if it lies at an edge of the grid."""
    best = min(grid, key=loss)
    warn_of_edge(name, best, grid)
    return best


def warn_of_edge(name: str, best: float, grid: tuple[float, ...]) -> None:
    if best == grid[-1] or best == grid[0] > 0:
        logger.warning(
            "%s: %g is the best of %g to %g; values outside the grid may be better", name, best, grid[0], grid[-1]
        )
