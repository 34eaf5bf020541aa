"""Models of one corpus whose losses differ significantly, and their registration."""

import random
import shutil
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.records import RunRecord
from rnnlm.storage.result_records import RegisteredVersion
from rnnlm.storage.stages import mark_complete
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.training.training_run import UNMARKED
from tests.configs import plain_config
from tests.registrar import Registrar

NAME = "rnnlm-contest"
ANIMALS, VERBS, PLACES = ["cat", "dog", "bird", "fox"], ["sees", "likes", "follows"], ["house", "tree", "river"]
# For each quality, NOISE has the standard deviation of the noise that is added to every weight.
NOISE = {"good": 0.0, "fair": 0.3, "poor": 1.0}


def paragraph(draw: random.Random) -> str:
    """Return one of (4 · 3 · 4 · 3)² = 20,736 paragraphs. A paragraph has two sentences and ends with a blank line."""
    lines = [
        f"the {draw.choice(ANIMALS)} {draw.choice(VERBS)} the {draw.choice(ANIMALS)} near the {draw.choice(PLACES)} ."
        for _ in range(2)
    ]
    return "\n".join(lines) + "\n\n"


def write_contest_corpus(folder: Path, seed: int = 0, validation: int = 400) -> dict[str, list[str]]:
    """Write short paragraphs to train.txt, valid.txt and test.txt, and return the paragraphs by split."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        split: [paragraph(draw) for _ in range(count)]
        for split, count in (("train", 200), ("valid", validation), ("test", 20))
    }
    for split, paragraphs in texts.items():
        (folder / f"{split}.txt").write_text("".join(paragraphs), encoding="utf-8")
    return texts


def contest_config(folder: Path) -> PipelineConfig:
    return plain_config(
        {
            "corpus.source": str(folder),
            "corpus.name": "contest",
            "model.hidden_size": 16,
            "model.counts": 0,  # Without an n-gram model, the models differ only by the noise in the weights.
            "training.epochs": 2,
            "training.device": "cpu",
            "training.validation.evaluations": 1,
            "registry.resamples": 1000,
        }
    )


class Contest(Registrar):
    """A registrar of a trained model, and of copies of this model with noise added to their weights."""

    nights = 0

    def register(self, quality: str, *, force: bool = False, **settings: Any) -> RegisteredVersion:
        """Register a run. `settings` are fields of RegistryConfig that replace the contest's settings."""
        registry = self.config.registry.model_copy(update=settings)
        config = self.config.model_copy(update={"registry": registry})
        return self(force=force, run=self.run_of(quality), config=config)

    def read_newer_text(self, folder: Path) -> None:
        """Train later candidates on a text that has one more paragraph than the previous text."""
        write_contest_corpus(folder)
        self.nights += 1
        with (folder / "train.txt").open("a", encoding="utf-8") as train:
            train.write(
                "".join(f"the cat {'really ' * night}sees the dog .\n\n" for night in range(1, self.nights + 1))
            )
        corpus = obtain_corpus(self.home, self.config.corpus.model_copy(update={"source": str(folder)}))
        tokenizer = train_tokenizer(self.home, corpus, self.config.tokenizer)
        self.dataset = store_sequences(self.home, corpus, tokenizer, self.config.sequences)

    def run_of(self, quality: str) -> RunRecord:
        """Return a finished run whose model has the quality `quality`."""
        import numpy as np

        run_id = f"{self.run.run_id[:8]}{quality:0>8}"
        folder = self.home.runs / run_id
        if not folder.exists():
            shutil.copytree(self.run.folder, folder)
            draw = np.random.default_rng(0)
            weights = load_file(folder / "model" / "model.safetensors")
            noisy = {
                name: (value + draw.normal(0, NOISE[quality], value.shape)).astype(value.dtype)
                for name, value in weights.items()
            }
            save_file(noisy, folder / "model" / "model.safetensors", {"format": "pt"})
            mark_complete(folder, apart_from=UNMARKED)
        return self.run.model_copy(update={"run_id": run_id, "folder": folder})
