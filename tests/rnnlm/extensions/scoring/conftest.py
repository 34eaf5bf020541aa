"""Fixtures with texts in the toy grammar, and with a function that scores them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnlm.extensions.scoring.bulk_scoring import ScoringRecord, score_texts
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord

LINES = [
    *(
        f"the {animal} sees the dog near the {place} ."
        for animal in ("cat", "bird", "fox")
        for place in ("tree", "river")
    ),
    "",
    "the zebra likes the cat near the house .",
    "river the the near . fox dog",
    "the dog .",
]
Configure = Callable[..., ScoringConfig]
Score = Callable[..., ScoringRecord]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Write ten lines. One line is blank, and one has a word outside the toy model's vocabulary."""
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def configure(texts: Path, tmp_path: Path, toy_run: RunRecord) -> Configure:
    """Return a function that configures the scoring of `texts` with the toy model, in shards of three documents."""

    def build(**fields: Any) -> ScoringConfig:
        defaults = {
            "input": str(texts),
            "output": str(tmp_path / "scores.parquet"),
            "model": str(toy_run.model_folder),
            "shard_documents": 3,
            "device": "cpu",
        }
        return ScoringConfig.model_validate(defaults | fields)

    return build


@pytest.fixture
def score(home: Home, configure: Configure) -> Score:
    return lambda **fields: score_texts(home, configure(**fields))
