"""A fixture with a trained model, because a model that always predicts the same tokens would hide errors."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from tests.built_once import built_once
from tests.configs import plain_config
from tests.rnnlm.story_corpus import NAMES, write_stories


@dataclass(frozen=True)
class Storyteller:
    folder: Path  # The folder of the model and its tokenizer.
    dataset: DatasetRecord
    tokenizer: TextTokenizer

    def model(self) -> LanguageModel:
        """Return a new copy of the model for each call, because a test may change it."""
        return load_model(self.folder)

    def network(self) -> LanguageModel:
        """Return the network without its n-gram model, because transformers and ONNX contain only the network."""
        model = self.model()
        model.mixture = None
        return model

    def prompts(self) -> list[list[int]]:
        """Return prompts of 2 to 5 ids, which begin with `<bos>`."""
        texts = [*NAMES, "clara sells", "felix paints the", "boris wants the black"]
        return [[self.tokenizer.bos_id, *self.tokenizer.encode(text)] for text in texts]


@pytest.fixture(scope="session")
def storyteller(tmp_path_factory: pytest.TempPathFactory) -> Storyteller:
    """Train a network of two layers with 32 units on 2,000 sentences for a few seconds."""
    folder, dataset = built_once(tmp_path_factory, stories_model)
    return Storyteller(folder, dataset, load_tokenizer(folder))


def stories_model(folder: Path) -> tuple[Path, DatasetRecord]:
    from rnnlm.sequences.dataset_writer import prepare_dataset
    from rnnlm.training.training_run import run_training
    from tests.conftest import untracked

    home = Home(folder / "home")
    config = plain_config(
        {
            "corpus.source": str(write_stories(folder / "stories")),
            "model.hidden_size": 32,
            "model.layers": 2,
            "training.epochs": 6,
            "training.device": "cpu",
            "training.optimizer.learning_rate": 0.01,
            "training.validation.evaluations": 1,
            "probes.gradient_flow": False,
        }
    )
    dataset = prepare_dataset(home, config)
    run = run_training(home, config, dataset, untracked)
    return run.model_folder, dataset
