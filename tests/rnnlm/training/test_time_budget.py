"""The size and length of a training follow from its minutes; what a person has set stays."""

from collections.abc import Callable

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.presets import build_config
from rnnlm.storage.records import DatasetRecord
from rnnlm.training import time_budget
from rnnlm.training.time_budget import Size, choose_size, fit_to_minutes, is_open


def speed_of(at_256_units: float) -> Callable[[PipelineConfig], float]:
    """A machine whose speed falls in proportion to the units."""
    return lambda config: at_256_units * 256 / config.model.units


def chosen(dataset: DatasetRecord, tokens: int, speed: float, *settings: str) -> Size:
    text = dataset.model_copy(update={"predicted_tokens": dataset.predicted_tokens | {"train": tokens}})
    return choose_size(build_config("default", settings), text, speed_of(speed))


def test_more_minutes_give_a_larger_network_and_more_work(toy_dataset: DatasetRecord) -> None:
    minutes = (0.1, 1, 3, 10, 30, 100, 1_000)
    sizes = [chosen(toy_dataset, 1_000_000, 40_000, f"training.minutes={one}") for one in minutes]
    assert [size.hidden_size for size in sizes] == sorted(size.hidden_size for size in sizes)
    work = [size.hidden_size * size.maximum_tokens for size in sizes]
    assert work == sorted(work)
    assert sizes[0].hidden_size < sizes[3].hidden_size


@pytest.mark.parametrize("tokens", [1_000, 300_000, 1_000_000, 100_000_000])
@pytest.mark.parametrize("minutes", [0.1, 3, 100])
def test_training_fits_the_minutes(toy_dataset: DatasetRecord, tokens: int, minutes: float) -> None:
    size = chosen(toy_dataset, tokens, 40_000, f"training.minutes={minutes}")
    speed = 40_000 * 256 / size.hidden_size
    assert size.maximum_tokens / speed <= 60 * minutes
    assert size.epochs * tokens >= size.maximum_tokens


def test_a_given_size_decides_the_number_of_tokens(toy_dataset: DatasetRecord) -> None:
    small, large = (chosen(toy_dataset, 10**8, 40_000, f"model.hidden_size={units}") for units in (64, 512))
    assert (small.hidden_size, large.hidden_size) == (64, 512)
    assert small.maximum_tokens == pytest.approx(8 * large.maximum_tokens, rel=0.02)


def test_only_null_settings_are_filled_in() -> None:
    size = Size(
        hidden_size=384,
        epochs=7,
        maximum_tokens=10,
        minutes=3.0,
        precision="bfloat16",
        dropout=0.3,
        learning_rate=1e-3,
    )
    config = size.fill_in(build_config("default", ["training.dropout.inputs=0.1", "training.precision=float32"]))
    training = config.training
    assert (config.model.hidden_size, training.epochs, training.maximum_tokens) == (384, 7, 10)
    assert (training.precision, training.optimizer.learning_rate) == ("float32", 1e-3)
    assert (training.dropout.inputs, training.dropout.outputs) == (0.1, 0.3)


@pytest.mark.parametrize(
    "settings",
    [
        ["training.epochs=3"],
        ["training.maximum_tokens=1000"],
        ["training.minutes=null"],
        ["training.start_from=champion"],
        ["model.kind=kneser-ney"],
    ],
)
def test_nothing_is_measured_where_minutes_decide_nothing(
    home: Home, toy_dataset: DatasetRecord, settings: list[str]
) -> None:
    config = build_config("default", settings)
    assert not is_open(config)
    sized = fit_to_minutes(home, config, toy_dataset)
    assert not home.starts.exists()
    assert (sized.model.hidden_size, sized.training.precision) == (256, "float32")
    assert (sized.training.epochs, sized.training.dropout.inputs) == (3, 0.2)


def test_a_measured_size_is_kept_for_this_text_and_these_settings(
    home: Home, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "MEASURED_SECONDS", 0.02)
    config = build_config("default", ["training.minutes=0.01", "training.loss.kind=exact", "training.device=cpu"])
    first = fit_to_minutes(home, config, toy_dataset)
    assert None not in (first.model.hidden_size, first.training.epochs, first.training.maximum_tokens)
    assert fit_to_minutes(home, config, toy_dataset) == first
    stored = sorted(home.starts.glob("size-*.json"))
    assert len(stored) == 1
    longer = config.model_copy(update={"training": config.training.model_copy(update={"minutes": 0.02})})
    fit_to_minutes(home, longer, toy_dataset)
    assert len(sorted(home.starts.glob("size-*.json"))) == 2


def test_epochs_of_a_short_text_are_bounded(toy_dataset: DatasetRecord) -> None:
    """Tinyshakespeare in 8,000 pieces: 40 epochs were worse than 12, with the most dropout there is."""
    dataset = toy_dataset.model_copy(update={"vocabulary_size": 8_000})
    three, ten, hundred = (chosen(dataset, 279_000, 40_000, f"training.minutes={one}") for one in (3, 10, 100))
    assert three.minutes == pytest.approx(3)
    assert three.dropout < ten.dropout == hundred.dropout == 0.5
    assert ten.minutes < 10
    assert hundred.minutes < 30


@pytest.mark.parametrize(
    ("vocabulary", "tokens", "units", "tokens_read", "dropout"),
    [
        (8_000, 947_064, 384, 5_370_000, 0.2),  # python-docs, three minutes
        (8_000, 947_064, 512, 14_980_000, 0.36),  # ten minutes
        (10_003, 929_589, 256, 5_860_000, 0.19),  # Penn Treebank
        (68, 996_271, 384, 8_145_000, 0.0),  # characters of tinyshakespeare
        (68, 996_271, 768, 13_520_000, 0.03),  # with 0.16 they were worse than after three minutes
    ],
)
def test_dropout_is_for_rows_of_words_more_than_for_layers(
    toy_dataset: DatasetRecord, vocabulary: int, tokens: int, units: int, tokens_read: int, dropout: float
) -> None:
    dataset = toy_dataset.model_copy(update={"vocabulary_size": vocabulary})
    speed = tokens_read / (0.95 * 60 * 3) * units / 256
    size = chosen(dataset, tokens, speed, f"model.hidden_size={units}")
    assert size.maximum_tokens == pytest.approx(tokens_read, rel=1e-3)
    assert size.dropout == dropout


def test_a_short_text_gets_a_small_network(toy_dataset: DatasetRecord) -> None:
    sizes = [chosen(toy_dataset, tokens, 40_000).hidden_size for tokens in (300, 3_000, 30_000)]
    assert sizes == sorted(set(sizes))


def test_settings_given_explicitly_are_measured_separately(
    home: Home, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "MEASURED_SECONDS", 0.02)
    settings = ["training.minutes=0.01", "training.loss.kind=exact", "training.device=cpu"]
    for own in ([], ["model.hidden_size=256"], ["training.precision=float32"], ["training.dropout.inputs=0.2"]):
        fit_to_minutes(home, build_config("default", [*settings, *own]), toy_dataset)
    assert len(list(home.starts.glob("size-*.json"))) == 4
