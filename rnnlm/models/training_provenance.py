"""Read from a model's folder which text the model was trained on."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.models.saved_config import read_object, read_saved_cut


@dataclass(frozen=True)
class TrainingProvenance:
    """Contents of rnnlm.json, written by training/train.py."""

    dataset_id: str
    corpus_digest: str
    cut: SequencesConfig  # mode, context_length and block_length with which any text must be cut for the model


def read_training_provenance(folder: Path) -> TrainingProvenance:
    """Raise ModelError if rnnlm.json is missing or incomplete."""
    try:
        cut, facts = read_saved_cut(folder), read_object(folder / "rnnlm.json")
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: rnnlm.json is missing or damaged; train or register the model again") from error
    if not all(isinstance(facts.get(name), str) for name in ("dataset_id", "corpus_digest")):
        raise ModelError(f"{folder}: rnnlm.json does not say what the model was trained on; train or register it again")
    return TrainingProvenance(facts["dataset_id"], facts["corpus_digest"], SequencesConfig(**cut._asdict()))
