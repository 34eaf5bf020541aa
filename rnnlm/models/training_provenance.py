"""Read from a model's folder which text the model was trained on."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.storage.home import read_json


@dataclass(frozen=True)
class TrainingProvenance:
    """Contents of rnnlm.json, written by training/train.py."""

    dataset_id: str
    corpus_digest: str
    cut: SequencesConfig  # mode, context_length and block_length with which any text must be cut for the model


def read_training_provenance(folder: Path) -> TrainingProvenance:
    """ModelError if rnnlm.json is missing or incomplete."""
    facts = read_json(folder / "rnnlm.json")
    cut = ("mode", "context_length", "block_length")
    if not isinstance(facts, dict) or not {"dataset_id", "corpus_digest", *cut} <= set(facts):
        raise ModelError(f"{folder}: rnnlm.json is missing or damaged; train or register the model again")
    settings = SequencesConfig(**{name: facts[name] for name in cut})
    return TrainingProvenance(facts["dataset_id"], facts["corpus_digest"], settings)
