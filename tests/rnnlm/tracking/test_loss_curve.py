"""The loss curve shows every finite value over the number of trained tokens."""

import json
from pathlib import Path

import pytest

from rnnlm.display.plots import new_figure
from rnnlm.tracking.loss_curve import draw_losses, plot_loss_curve, plot_small_loss_curve, smoothed
from rnnlm.training.history import read_series


@pytest.fixture
def history(tmp_path: Path) -> Path:
    lines = [
        {"step": 1, "metrics": {"train_loss_nats": 4.0, "trained_tokens": 10, "learning_rate": 0.1}},
        {"step": 2, "metrics": {"train_loss_nats": float("nan"), "trained_tokens": 20}},
        {"step": 2, "metrics": {"validation_nll_nats_per_token": 3.0}},
        {"step": 3, "metrics": {"train_loss_nats": 2.0, "trained_tokens": 30}},
    ]
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_smoothing_keeps_a_constant_constant() -> None:
    assert smoothed([2.0, 2.0, 2.0]) == pytest.approx([2.0, 2.0, 2.0])
    # With bias correction, the average is (0.9 * 0.1 * 0 + 0.1 * 1) / (0.9 * 0.1 + 0.1).
    assert smoothed([0.0, 1.0])[1] == pytest.approx(0.1 / 0.19)


CURVES = {  # Each curve is a pair: the training losses, and the losses of the validation sample.
    "falling": ([4.0, 3.0, 2.0, 1.5], [3.5, 2.5]),
    "rising": ([1.0, 2.0, 4.0], [1.5, 5.0]),
    "flat": ([2.0] * 50, [2.0] * 5),
    "overfit": ([4.0, 1.0, 0.001], [4.0, 6.0]),
    "one point": ([2.0], [12.0]),
    "counts alone": ([], [2.0]),
    "no validation": ([3.0, 2.0], []),
}


@pytest.mark.parametrize("curve", CURVES)
def test_no_word_stands_on_a_curve(tmp_path: Path, curve: str) -> None:
    path = tmp_path / "history.jsonl"
    names = ("train_loss_nats", "validation_nll_nats_per_token")
    lines = [
        {"step": step, "metrics": {name: value, "trained_tokens": 10 * step}}
        for name, values in zip(names, CURVES[curve], strict=True)
        for step, value in enumerate(values, 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    figure, (panel,) = new_figure((6.4, 2.6))
    draw_losses(panel, path)
    figure.draw_without_rendering()
    assert not panel.texts
    legend, inside = panel.get_legend().get_window_extent(), panel.get_window_extent()
    assert legend.y0 >= inside.y1
    assert figure.bbox.containsx(legend.x0)
    assert figure.bbox.y1 >= legend.y1
    plot_loss_curve(path, tmp_path / "picture.png")
    plot_small_loss_curve(path, tmp_path / "small.png")


@pytest.mark.long
def test_an_empty_history_still_gives_a_picture(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("", encoding="utf-8")
    plot_loss_curve(tmp_path / "history.jsonl", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1_000


def test_rolled_back_steps_are_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    # Each entry has an attempt, a step and a loss.
    steps = [(0, 1, 4.0), (0, 2, 3.0), (0, 3, 90.0), (1, 2, 3.5), (1, 3, 2.5)]
    lines = [
        {"step": step, "attempt": attempt, "metrics": {"train_loss_nats": loss, "trained_tokens": 10 * step}}
        for attempt, step, loss in steps
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert read_series(path, "train_loss_nats") == ([10.0, 20.0, 30.0], [4.0, 3.5, 2.5])
