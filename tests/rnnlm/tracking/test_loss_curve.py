"""The loss curve shows every finite value against the tokens trained so far."""

import json
from pathlib import Path

import pytest

from rnnlm.tracking.loss_curve import plot_loss_curve, smoothed
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
    # (0.9 * 0.1 * 0 + 0.1 * 1) / (0.9 * 0.1 + 0.1)
    assert smoothed([0.0, 1.0])[1] == pytest.approx(0.1 / 0.19)


@pytest.mark.long
def test_an_empty_history_still_gives_a_picture(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("", encoding="utf-8")
    plot_loss_curve(tmp_path / "history.jsonl", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1_000


def test_rolled_back_steps_are_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    steps = [(0, 1, 4.0), (0, 2, 3.0), (0, 3, 90.0), (1, 2, 3.5), (1, 3, 2.5)]  # attempt, step, loss
    lines = [
        {"step": step, "attempt": attempt, "metrics": {"train_loss_nats": loss, "trained_tokens": 10 * step}}
        for attempt, step, loss in steps
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert read_series(path, "train_loss_nats") == ([10.0, 20.0, 30.0], [4.0, 3.5, 2.5])
