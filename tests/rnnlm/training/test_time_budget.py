"""The size of a network and its training length are chosen for the given minutes. The user's settings are kept."""

import os
import time
from collections.abc import Callable

import pytest
import torch

from rnnlm.config import ModelConfig, PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training import time_budget, training_speed
from rnnlm.training.time_budget import Size, choose_size, fit_to_minutes, is_open

CPU = torch.device("cpu")


def speed_of(at_256_units: float) -> Callable[[PipelineConfig], float]:
    """Return a function that returns a speed for each configuration.

    The speed is inversely proportional to the units.
    """
    return lambda config: at_256_units * 256 / config.model.units


def chosen(dataset: DatasetRecord, tokens: int, speed: float, *settings: str) -> Size:
    text = dataset.model_copy(update={"predicted_tokens": dataset.predicted_tokens | {"train": tokens}})
    return choose_size(build_config("default", settings), text, speed_of(speed))


@pytest.mark.parametrize("tokens", [1_000, 300_000, 1_000_000, 100_000_000])
@pytest.mark.parametrize("minutes", [0.1, 3, 100])
def test_training_fits_the_minutes(toy_dataset: DatasetRecord, tokens: int, minutes: float) -> None:
    size = chosen(toy_dataset, tokens, 40_000, f"training.minutes={minutes}")
    speed = 40_000 * 256 / size.hidden_size
    assert size.maximum_tokens / speed <= 60 * minutes
    assert size.epochs * tokens >= size.maximum_tokens


@pytest.mark.parametrize(("kind", "heads"), [("xlstm", 64), ("transformer", 32)])
def test_the_chosen_size_is_divided_by_the_heads(toy_dataset: DatasetRecord, kind: str, heads: int) -> None:
    for speed in (10, 1_000, 40_000, 10**7):
        size = chosen(toy_dataset, 1_000_000, speed, f"model.kind={kind}", f"model.heads={heads}")
        # ModelConfig would refuse a size that is not divisible by the number of heads.
        ModelConfig(kind=kind, heads=heads, hidden_size=size.hidden_size)


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
    assert sized.training.loss.kind == "sampled"


@pytest.mark.parametrize("settings", [["training.epochs=3"], ["training.minutes=2"]])
def test_a_gpu_multiplies_in_bfloat16_unless_told_otherwise(
    home: Home, toy_dataset: DatasetRecord, settings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (time_budget, training_speed):
        monkeypatch.setattr(module, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(time_budget, "multiplies_bfloat16", lambda device: True)
    monkeypatch.setattr(training_speed, "machine_facts", lambda device: [device.type])
    monkeypatch.setattr(training_speed, "measured_speed", lambda config, dataset, seconds: 1e6)
    for preset in ("default", "gpu"):
        sized = fit_to_minutes(home, build_config(preset, settings), toy_dataset)
        assert sized.training.precision == "bfloat16"
        exact = fit_to_minutes(home, build_config(preset, [*settings, "training.precision=float32"]), toy_dataset)
        assert exact.training.precision == "float32"
        assert {sized.training.loss.kind, exact.training.loss.kind} == {"exact"}
    sampled = fit_to_minutes(home, build_config("default", [*settings, "training.loss.kind=sampled"]), toy_dataset)
    assert sampled.training.loss.kind == "sampled"


@pytest.mark.long
def test_a_measured_size_is_kept_for_this_text_and_these_settings(
    home: Home, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_speed, "MEASURED_SECONDS", 0.02)
    config = build_config("default", ["training.minutes=0.01", "training.loss.kind=exact", "training.device=cpu"])
    first = fit_to_minutes(home, config, toy_dataset)
    assert None not in (first.model.hidden_size, first.training.epochs, first.training.maximum_tokens)
    assert fit_to_minutes(home, config, toy_dataset) == first
    stored = sorted(home.starts.glob("size-*.json"))
    assert len(stored) == 1
    longer = config.model_copy(update={"training": config.training.model_copy(update={"minutes": 0.02})})
    fit_to_minutes(home, longer, toy_dataset)
    assert len(sorted(home.starts.glob("size-*.json"))) == 2


def test_the_speed_of_a_machine_is_remembered_for_a_day(
    home: Home, toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measured speed is reused for a day.

    The speed is reused for another text, seed or length, but not for another batch, vocabulary or row length.
    """
    measured: list[int] = []

    def measure(config: PipelineConfig, dataset: DatasetRecord, seconds: float) -> float:
        measured.append(config.model.units)
        return 1e5

    monkeypatch.setattr(training_speed, "measured_speed", measure)
    base = ["training.minutes=0.1", "training.device=cpu"]

    def measurements(dataset: DatasetRecord, *settings: str) -> int:
        measured.clear()
        sized = fit_to_minutes(home, build_config("default", [*base, *settings]), dataset)
        assert sized.training.maximum_tokens
        return len(measured)

    another_text = toy_dataset.model_copy(update={"dataset_id": "another"})
    assert measurements(toy_dataset) >= 1
    assert measurements(another_text) == 0
    assert measurements(toy_dataset, "training.seed=1") == 0
    assert measurements(toy_dataset, "training.minutes=0.09") == 0
    assert measurements(toy_dataset, "training.batch_size=7") >= 1
    assert measurements(toy_dataset.model_copy(update={"dataset_id": "words", "vocabulary_size": 99})) >= 1
    rows = {split: max(1, count // 8) for split, count in toy_dataset.sequence_counts.items()}
    assert measurements(toy_dataset.model_copy(update={"dataset_id": "long rows", "sequence_counts": rows})) >= 1
    # A file with a time in the future was written while the clock was ahead.
    for name, ago in (("tomorrow", training_speed.SPEED_SECONDS + 1), ("clock put back", -10 * 365 * 86_400)):
        for path in home.starts.glob("speed-*.json"):
            os.utime(path, (time.time() - ago, time.time() - ago))
        assert measurements(toy_dataset.model_copy(update={"dataset_id": name})) >= 1
    # A longer run measures its speed for longer, and a shorter run reuses the stored speed of a longer one.
    assert measurements(toy_dataset, "training.minutes=10") >= 1
    assert measurements(toy_dataset, "training.minutes=9") == 0
