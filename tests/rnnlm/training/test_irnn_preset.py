"""The `irnn` preset, with relu and an identity matrix as U, can be trained on any text, even with long lines."""

import textwrap
from pathlib import Path

import pytest

from rnnlm.config.presets import build_config
from rnnlm.evaluation.baselines import baselines
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training
from tests.conftest import untracked

ROOT = Path(__file__).parents[3]
SHORT = [
    "training.maximum_tokens=60000",
    "training.device=cpu",
    "training.validation.tokens=5000",
]


def pages() -> str:
    return "\n\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*/*.md")))


TEXTS = {
    "pages": pages,
    "programs": lambda: "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "rnnlm").glob("*/*.py"))),
    "one paragraph a line": lambda: "\n".join(part.replace("\n", " ") for part in pages().split("\n\n")),
    "short lines": lambda: "\n".join(line for part in pages().split("\n\n") for line in textwrap.wrap(part, 30)),
}


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("text", TEXTS)
def test_a_state_that_begins_with_the_identity_can_be_trained(text: str, seed: int, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXTS[text](), encoding="utf-8")
    config = build_config("irnn", [*SHORT, f"training.seed={seed}"], str(tmp_path / "text.txt"))
    home = Home(tmp_path / "home")
    dataset = prepare_dataset(home, config)
    learnt = run_training(home, config, dataset, untracked).best_validation_perplexity
    assert learnt < 0.5 * baselines(dataset, "valid").uniform_perplexity
