"""Each row of the adaptation table has the scores of its adaptation, with settings fitted on the validation text."""

import copy

import numpy as np
import pytest

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.errors import ConfigError, ModelError
from rnnlm.evaluation.count_shares import best_share, count_training_split, mean_nll, split_log_probabilities
from rnnlm.extensions.adaptation import adaptation_table
from rnnlm.extensions.adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.extensions.adaptation.adaptation_table import (
    Adaptations,
    compare_on_corpus,
    measure_adaptations,
    static_log_probabilities,
)
from rnnlm.extensions.adaptation.sequential_scoring import score_in_order
from rnnlm.models.ensemble import joined
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import mixed
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked


@pytest.fixture
def trained(toy_run: RunRecord) -> LanguageModel:
    return load_model(toy_run.model_folder)


@pytest.mark.long
def test_each_adaptation_is_a_row_of_the_table(
    toy_dataset: DatasetRecord, toy_evaluation: EvaluationRecord, trained: LanguageModel
) -> None:
    wanted = Adaptations(DynamicConfig(scaled=True), CacheConfig(size=50), kneser_ney=True)
    comparison = measure_adaptations(trained, toy_dataset, "test", wanted)
    names = ["static", "dynamic", "cache", "dynamic + cache", "with 5-gram Kneser-Ney"]
    names.append("dynamic + cache + counts")
    assert [variant.name for variant in comparison.variants] == names
    assert comparison.tokens == 400
    static, *_, mixture, everything = comparison.variants
    network = toy_evaluation.scores["test"].network
    assert network is not None
    # The values are equal up to rounding, because the evaluation uses another batch size.
    assert static.perplexity == pytest.approx(network.perplexity, rel=1e-6)
    # The weight of the n-gram model is fitted only on the validation split.
    counts, _ = count_training_split(toy_dataset, 5)
    neural = static_log_probabilities(trained, toy_dataset, "valid")
    of_counts, _ = split_log_probabilities(counts, toy_dataset, "valid")
    # The values are equal up to rounding, because the expected loss is computed row by row.
    assert mixture.settings == {"share": pytest.approx(best_share(neural, of_counts), rel=1e-4)}
    assert sum(everything.settings.values()) == pytest.approx(1)
    assert list(everything.settings) == ["network", "cache", "counts"]
    # The n-gram model is the best model of this toy language, so its weight in the mixture is 1.
    of_counts_alone, _ = split_log_probabilities(counts, toy_dataset, "test")
    assert everything.nll_nats_per_token == pytest.approx(-of_counts_alone.mean(), rel=1e-6)
    shown = comparison.rows
    assert [row["model"] for row in shown] == names
    assert (shown[0]["change"], shown[2]["settings"]) == ("", "size=50 theta=0.3 share=0.15")


def test_no_learning_and_no_cache_give_the_static_perplexity(
    toy_dataset: DatasetRecord, trained: LanguageModel
) -> None:
    wanted = Adaptations(DynamicConfig(rate=0.0), CacheConfig(share=0.0))
    static, *others = measure_adaptations(trained, toy_dataset, "test", wanted).variants
    # Without adaptation, all variants have the same loss to the last bit.
    assert len({variant.nll_nats_per_token for variant in others}) == 1
    # The values are equal up to rounding, because the static scores use another batch size.
    assert others[0].perplexity == pytest.approx(static.perplexity, rel=1e-6)


@pytest.mark.long
def test_tuning_takes_the_best_of_its_grid_on_validation(
    toy_dataset: DatasetRecord, trained: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tuning chooses the best rate and the best decay on the validation text.

    The best rate is 0.5, with which the model learns enough to reduce the loss. The best decay is 0, with which the
    learned weights are kept.
    """
    # The model learns nothing with the first rate, learns with the second, and diverges with the third.
    monkeypatch.setattr(adaptation_table, "RATES", (1e-6, 0.5, 1e6))
    monkeypatch.setattr(adaptation_table, "DECAYS", (0.0, 1.0))  # A decay of 1 restores the trained weights.
    valid = StoredSplit(toy_dataset, "valid")
    dynamic = adaptation_table.tuned_dynamic(trained, valid, "sentence", DynamicConfig(segment_length=10))
    assert (dynamic.rate, dynamic.decay, dynamic.segment_length) == (0.5, 0.0, 10)
    monkeypatch.setattr(adaptation_table, "SIZES", (1, 40))
    cache = adaptation_table.tuned_cache(trained, valid, "sentence", CacheConfig())

    def loss(size: int, theta: float) -> float:
        scores = score_in_order(trained, valid, "sentence", cache=CacheConfig(size=size, theta=theta))
        return mean_nll(mixed(*scores, best_share(*scores)))

    losses = {(size, theta): loss(size, theta) for size in (1, 40) for theta in adaptation_table.THETAS}
    assert (cache.size, cache.theta) == min(losses, key=losses.__getitem__)
    assert 0.0 <= cache.share <= 1.0
    asked = Adaptations(DynamicConfig(segment_length=10), CacheConfig(), tune=True)
    _, learned, remembered, _ = measure_adaptations(trained, toy_dataset, "test", asked).variants
    assert (learned.settings, remembered.settings) == (dict(dynamic), dict(cache))


def test_a_diverging_model_is_refused(toy_dataset: DatasetRecord, trained: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="diverged at --dynamic-rate 1e"):
        measure_adaptations(
            trained, toy_dataset, "test", Adaptations(DynamicConfig().model_copy(update={"rate": 1e38}))
        )


@pytest.mark.long
def test_counts_alone_do_not_adapt(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_corpus: CorpusRecord
) -> None:
    """Adaptation is refused for an n-gram model, because there is no network to adapt."""
    run = run_training(home, changed(toy_config, {"model.kind": "kneser-ney"}), toy_dataset, untracked)
    config = CorpusConfig(source=str(toy_corpus.folder))
    for wanted in (Adaptations(kneser_ney=True), Adaptations(cache=CacheConfig()), Adaptations(DynamicConfig())):
        with pytest.raises(ModelError, match="only n-gram counts"):
            compare_on_corpus(home, run.model_folder, config, wanted)


@pytest.mark.long
def test_fitted_adaptations_require_the_test_split(
    home: Home, toy_run: RunRecord, toy_corpus: CorpusRecord, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("texts") / "other.txt"
    path.write_text("the dog sees the cat .\n" * 5)
    wanted = Adaptations(kneser_ney=True)
    with pytest.raises(ConfigError, match="--split test"):
        compare_on_corpus(home, toy_run.model_folder, CorpusConfig(source=str(path)), wanted)
    with pytest.raises(ConfigError, match="not on valid"):
        compare_on_corpus(home, toy_run.model_folder, CorpusConfig(source=str(toy_corpus.folder)), wanted, "valid")
    whole = compare_on_corpus(
        home, toy_run.model_folder, CorpusConfig(source=str(path)), Adaptations(cache=CacheConfig())
    )
    assert (whole.split, whole.tokens) == ("all", 35)
    # The text has the same line five times, which helps the cache.
    assert whole.variants[1].perplexity < whole.variants[0].perplexity


@pytest.mark.long
def test_an_ensemble_adapts_as_one_model(toy_dataset: DatasetRecord, trained: LanguageModel) -> None:
    """An ensemble of two copies of a network adapts like the network with half the rate and twice the cache's theta.

    Each copy gets half the gradient, and the concatenated hidden states have twice the dot product.
    """
    twice = joined([trained, copy.deepcopy(trained)], np.array([0.5, 0.5]))
    alone = measure_adaptations(trained, toy_dataset, "test", Adaptations(DynamicConfig(), CacheConfig(theta=0.3)))
    doubled = Adaptations(DynamicConfig(rate=0.06), CacheConfig(theta=0.15))
    both = measure_adaptations(twice, toy_dataset, "test", doubled)
    for one, other in zip(alone.variants, both.variants, strict=True):
        assert other.nll_nats_per_token == pytest.approx(one.nll_nats_per_token, rel=1e-4)
