"""A network's plain perplexity beside those with test-time adaptation: a table with one row each."""

from dataclasses import dataclass

import numpy as np

from rnnlm.errors import ConfigError
from rnnlm.evaluation.count_shares import count_training_split, split_log_probabilities
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.evaluation.test_time_adaptation.dynamic_evaluation import measure_gradient_rms
from rnnlm.evaluation.test_time_adaptation.grid_search import tuned_cache, tuned_dynamic
from rnnlm.evaluation.test_time_adaptation.interpolation import best_share, mean_nll
from rnnlm.evaluation.test_time_adaptation.sequential_scoring import score_in_order
from rnnlm.evaluation.token_losses import network_nll_of_split
from rnnlm.metrics import perplexity
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import mixed
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.records import DatasetRecord, Record, Split


@dataclass(frozen=True)
class Adaptations:
    """The adaptations to measure; None: not that one."""

    dynamic: DynamicConfig | None = None
    cache: CacheConfig | None = None
    kneser_ney: NgramConfig | None = None
    tune: bool = False  # choose rate and decay, theta and share on the validation split

    @property
    def needs_other_splits(self) -> bool:
        """True if something is fitted on the validation split or counted on the training split."""
        scaled = self.dynamic is not None and self.dynamic.scaled
        return self.tune or scaled or self.kneser_ney is not None


class Variant(Record):
    name: str  # such as "static", "dynamic + cache"
    nll_nats_per_token: float
    perplexity: float
    settings: dict[str, float]


class AdaptationTable(Record):
    split: str
    tokens: int
    variants: tuple[Variant, ...]  # the plain model first
    seen_share: float | None = None  # as of SplitScore


def measure_adaptations(
    model: LanguageModel, dataset: DatasetRecord, split: Split, wanted: Adaptations
) -> AdaptationTable:
    """Perplexity on a whole split of the plain model and with each wanted adaptation.

    ConfigError if the model diverges.
    """
    static = static_log_probabilities(model, dataset, split)
    variants = [variant("static", static, {})]
    variants += adapted(model, dataset, split, wanted)
    if wanted.kneser_ney is not None:
        variants.append(interpolated(model, dataset, split, wanted.kneser_ney, static))
    return AdaptationTable(split=split, tokens=len(static), variants=tuple(variants))


def adapted(model: LanguageModel, dataset: DatasetRecord, split: Split, wanted: Adaptations) -> list[Variant]:
    """The rows "dynamic", "cache" and "dynamic + cache", as wanted."""
    dynamic, cache = wanted.dynamic, wanted.cache
    valid, text = StoredSplit(dataset, "valid"), StoredSplit(dataset, split)
    gradient_rms = None
    if dynamic and dynamic.scaled:
        gradient_rms = measure_gradient_rms(model, StoredSplit(dataset, "train"), dataset.mode, dynamic)
    if wanted.tune and dynamic:
        dynamic = tuned_dynamic(model, valid, dataset.mode, dynamic, gradient_rms)
    if wanted.tune and cache:
        cache = tuned_cache(model, valid, dataset.mode, cache)
    rows = []
    if dynamic:
        # Scored once for two rows: the cache does not change the network's probabilities.
        scores = score_in_order(model, text, dataset.mode, dynamic, cache, gradient_rms)
        refuse_divergence(scores.model, dynamic, wanted.tune)
        rows.append(variant("dynamic", scores.model, dict(dynamic)))
    if cache:
        static = score_in_order(model, text, dataset.mode, cache=cache)
        rows.append(variant("cache", mixed(*static.both(), cache.share), dict(cache)))
    if dynamic and cache:
        # With the settings of the two rows above: nothing is tuned for the pair.
        rows.append(variant("dynamic + cache", mixed(*scores.both(), cache.share), {}))
    return rows


def interpolated(
    model: LanguageModel,
    dataset: DatasetRecord,
    split: Split,
    config: NgramConfig,
    static: np.ndarray,
) -> Variant:
    """Mixed with a Kneser-Ney model of the training split, its share fitted on the validation split."""
    counts, _ = count_training_split(dataset, config.order)

    def of_ngrams(part: Split) -> np.ndarray:
        log_probabilities, _ = split_log_probabilities(counts, StoredSplit(dataset, part), dataset.mode)
        return log_probabilities

    share = best_share(static_log_probabilities(model, dataset, "valid"), of_ngrams("valid"))
    both = mixed(static, of_ngrams(split), share)
    return variant(f"with {config.order}-gram Kneser-Ney", both, {"share": share})


def static_log_probabilities(model: LanguageModel, dataset: DatasetRecord, split: Split) -> np.ndarray:
    """(tokens,) float64 natural log-probabilities of the plain network, in the order of the text."""
    parts = list(network_nll_of_split(model, StoredSplit(dataset, split), dataset.mode))
    return -np.concatenate(parts).astype(np.float64)


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
