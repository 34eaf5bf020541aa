"""The table of `rnnlm evaluate`: each row is what its name says, and fitted where it may be fitted."""

import numpy as np
import pytest

from rnnlm.config import CorpusConfig
from rnnlm.errors import ConfigError
from rnnlm.evaluation.external_corpus import compare_on_corpus
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_perplexity import log_probabilities, score_ngram_split
from rnnlm.evaluation.score_tables import adaptation_rows
from rnnlm.evaluation.test_time_adaptation import grid_search
from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.evaluation.test_time_adaptation.adaptation_table import (
    Adaptations,
    measure_adaptations,
    static_log_probabilities,
)
from rnnlm.evaluation.test_time_adaptation.dynamic_evaluation import measure_gradient_rms
from rnnlm.evaluation.test_time_adaptation.interpolation import best_share, mean_nll
from rnnlm.evaluation.test_time_adaptation.sequential_scoring import score_in_order
from rnnlm.evaluation.token_losses import joined_losses, nll_of_split, token_losses
from rnnlm.home import Home
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import mixed
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.records import CorpusRecord, DatasetRecord, EvaluationRecord, RunRecord

NGRAM = NgramConfig(order=3, threads=1)


@pytest.fixture
def trained(toy_run: RunRecord) -> LanguageModel:
    return load_model(toy_run.model_folder)


def counts_say(home: Home, dataset: DatasetRecord, split: str) -> np.ndarray:
    batches = log_probabilities(train_kneser_ney(home, dataset, NGRAM), dataset, split, NGRAM)  # type: ignore[arg-type]
    return np.concatenate([batch.column("log_probability").to_numpy() for batch in batches])


@pytest.mark.long
def test_everything_at_once_is_a_row_each(
    toy_dataset: DatasetRecord, toy_evaluation: EvaluationRecord, trained: LanguageModel
) -> None:
    wanted = Adaptations(DynamicConfig(scaled=True), CacheConfig(size=50), NGRAM)
    comparison = measure_adaptations(trained, toy_dataset, "test", wanted)
    names = ["static", "dynamic", "cache", "dynamic + cache", "with 3-gram Kneser-Ney"]
    assert [variant.name for variant in comparison.variants] == names
    assert comparison.tokens == 400
    static, network = comparison.variants[0], toy_evaluation.scores["test"].network
    assert network is not None
    assert static.perplexity == pytest.approx(network.perplexity, rel=1e-9)
    shown = adaptation_rows(comparison)
    assert [row["model"] for row in shown] == names
    assert (shown[0]["change"], shown[2]["settings"]) == ("", "size=50 theta=0.3 share=0.15")


def test_nothing_learnt_and_nothing_remembered_is_the_static_perplexity(
    toy_dataset: DatasetRecord, trained: LanguageModel
) -> None:
    wanted = Adaptations(DynamicConfig(rate=0.0), CacheConfig(share=0.0))
    static, *others = measure_adaptations(trained, toy_dataset, "test", wanted).variants
    assert len({variant.nll_nats_per_token for variant in others}) == 1  # the same to the last bit
    assert others[0].perplexity == pytest.approx(static.perplexity, rel=1e-6)  # another batch size


def test_both_models_are_asked_for_the_same_tokens_in_the_same_order(
    home: Home, toy_dataset: DatasetRecord, trained: LanguageModel
) -> None:
    """Row and place of each, and a token after the same three has the same probability in the counts."""
    batches = list(log_probabilities(train_kneser_ney(home, toy_dataset, NGRAM), toy_dataset, "test", NGRAM))
    rows, places, counts = (
        np.concatenate([batch.column(name).to_numpy() for batch in batches])
        for name in ("sequence_id", "position", "log_probability")
    )
    source = StoredSplit(toy_dataset, "test")
    nll_nats = np.concatenate(list(nll_of_split(trained, source, "sentence")))
    losses = joined_losses(list(token_losses(source, nll_nats)))
    assert np.array_equal(rows, losses.sequence_ids)
    begins = np.flatnonzero(places == 0)
    assert np.array_equal(begins, np.flatnonzero(losses.previous_ids == 2))  # <bos>
    # The trigram's context is two tokens: with the one predicted they decide its probability.
    trigrams: dict[tuple[int, int, int], float] = {}
    for place in np.flatnonzero(places >= 1).tolist():
        key = tuple(int(token) for token in (*losses.previous_ids[place - 1 : place + 1], losses.token_ids[place]))
        assert len(key) == 3
        assert trigrams.setdefault(key, counts[place]) == pytest.approx(counts[place], rel=1e-12)


def test_shares_0_and_1_of_the_counts_are_each_models_own_perplexity(
    home: Home, toy_dataset: DatasetRecord, toy_evaluation: EvaluationRecord, trained: LanguageModel
) -> None:
    neural, counts = static_log_probabilities(trained, toy_dataset, "test"), counts_say(home, toy_dataset, "test")
    of_neural, of_counts = (np.exp(mean_nll(mixed(neural, counts, share))) for share in (0.0, 1.0))
    network = toy_evaluation.scores["test"].network
    assert network is not None
    assert of_neural == pytest.approx(network.perplexity, rel=1e-9)
    own = score_ngram_split(train_kneser_ney(home, toy_dataset, NGRAM), toy_dataset, "test", NGRAM)
    assert of_counts == pytest.approx(own.perplexity, rel=1e-9)


def test_the_share_is_fitted_on_validation_alone(
    home: Home, toy_dataset: DatasetRecord, trained: LanguageModel
) -> None:
    row = measure_adaptations(trained, toy_dataset, "test", Adaptations(kneser_ney=NGRAM)).variants[-1]
    neural, counts = static_log_probabilities(trained, toy_dataset, "valid"), counts_say(home, toy_dataset, "valid")
    assert row.settings == {"share": best_share(neural, counts)}
    on_valid = mean_nll(mixed(neural, counts, row.settings["share"]))
    assert on_valid <= min(mean_nll(neural), mean_nll(counts))


def test_tuning_takes_the_best_of_its_grid_on_validation(
    toy_dataset: DatasetRecord, trained: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that needs its training undone: only a rate of 0.5 learns anything to speak of."""
    monkeypatch.setattr(grid_search, "RATES", (1e-6, 0.5, 1e6))  # nothing, something, divergence
    monkeypatch.setattr(grid_search, "DECAYS", (0.0, 1.0))  # 1: straight back to the trained weights
    valid = StoredSplit(toy_dataset, "valid")
    dynamic = grid_search.tuned_dynamic(trained, valid, "sentence", DynamicConfig(segment_length=10))
    assert (dynamic.rate, dynamic.decay, dynamic.segment_length) == (0.5, 0.0, 10)
    cache = grid_search.tuned_cache(trained, valid, "sentence", CacheConfig(size=40))
    assert cache.theta in grid_search.THETAS
    assert 0.0 <= cache.share <= 1.0
    assert cache.size == 40


def test_the_decay_is_chosen_on_more_text_than_the_rate(
    toy_dataset: DatasetRecord, trained: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first segment nothing has been learnt yet, and no decay is as good as any; a long text shows the drift."""
    monkeypatch.setattr(grid_search, "RATES", (50.0,))
    monkeypatch.setattr(grid_search, "DECAYS", (0.0, 1.0))
    monkeypatch.setattr(grid_search, "TUNING_TOKENS", 10)
    valid, start = StoredSplit(toy_dataset, "valid"), DynamicConfig(segment_length=10)
    assert grid_search.tuned_dynamic(trained, valid, "sentence", start).decay == 1.0
    monkeypatch.setattr(grid_search, "DECAY_TOKENS", 10)
    assert grid_search.tuned_dynamic(trained, valid, "sentence", start).decay == 0.0


@pytest.mark.slow
def test_each_row_uses_the_settings_chosen_on_validation(
    toy_dataset: DatasetRecord, trained: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid_search, "RATES", (0.02, 0.2))
    monkeypatch.setattr(grid_search, "DECAYS", (0.0, 0.5))
    monkeypatch.setattr(grid_search, "THETAS", (0.1, 0.5))
    train, valid, test = (StoredSplit(toy_dataset, split) for split in ("train", "valid", "test"))
    asked = Adaptations(DynamicConfig(segment_length=10, scaled=True), CacheConfig(size=40), tune=True)
    assert asked.dynamic is not None
    assert asked.cache is not None
    gradient_rms = measure_gradient_rms(trained, train, "sentence", asked.dynamic)
    dynamic = grid_search.tuned_dynamic(trained, valid, "sentence", asked.dynamic, gradient_rms)
    cache = grid_search.tuned_cache(trained, valid, "sentence", asked.cache)
    assert (dynamic, cache) != (asked.dynamic, asked.cache)
    both = score_in_order(trained, test, "sentence", dynamic, cache, gradient_rms)
    alone = score_in_order(trained, test, "sentence", cache=cache)
    expected = [
        ("dynamic", mean_nll(both.model), dict(dynamic)),
        ("cache", mean_nll(mixed(*alone.both(), cache.share)), dict(cache)),
        ("dynamic + cache", mean_nll(mixed(*both.both(), cache.share)), {}),
    ]
    _, *rows = measure_adaptations(trained, toy_dataset, "test", asked).variants
    assert [(row.name, row.nll_nats_per_token, row.settings) for row in rows] == expected
    assert len({row.nll_nats_per_token for row in rows}) == 3


def test_a_best_value_at_the_end_of_its_grid_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert grid_search.best_of("rate", (0.1, 0.2, 0.3), lambda rate: (rate - 0.2) ** 2) == 0.2
    assert grid_search.best_of("decay", (0.0, 0.2), lambda decay: decay) == 0.0  # there is nothing below
    assert not caplog.records
    assert grid_search.best_of("rate", (0.1, 0.2, 0.3), lambda rate: -rate) == 0.3
    assert grid_search.best_of("rate", (0.1, 0.2, 0.3), lambda rate: rate) == 0.1
    assert ["rate: 0.3 is the best" in caplog.text, "rate: 0.1 is the best" in caplog.text] == [True, True]


def test_a_divergence_is_told(toy_dataset: DatasetRecord, trained: LanguageModel) -> None:
    with pytest.raises(ConfigError, match="diverged at --dynamic-rate 1e"):
        measure_adaptations(
            trained,
            toy_dataset,
            "test",
            Adaptations(DynamicConfig.model_construct(**dict(DynamicConfig()) | {"rate": 1e38})),
        )


@pytest.mark.long
def test_what_is_fitted_wants_the_test_split(
    home: Home, toy_run: RunRecord, toy_corpus: CorpusRecord, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("texts") / "other.txt"
    path.write_text("the dog sees the cat .\n" * 5)
    wanted = Adaptations(kneser_ney=NGRAM)
    with pytest.raises(ConfigError, match="--split test"):
        compare_on_corpus(home, toy_run.model_folder, CorpusConfig(source=str(path)), wanted)
    with pytest.raises(ConfigError, match="not on valid"):
        compare_on_corpus(home, toy_run.model_folder, CorpusConfig(source=str(toy_corpus.folder)), wanted, "valid")
    whole = compare_on_corpus(
        home, toy_run.model_folder, CorpusConfig(source=str(path)), Adaptations(cache=CacheConfig())
    )
    assert (whole.split, whole.tokens) == ("all", 35)
    assert whole.variants[1].perplexity < whole.variants[0].perplexity  # the same line five times
