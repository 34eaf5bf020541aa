"""The record of the text on which a model was trained, which is stored as rnnlm.json in the model's folder."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.models.saved_config import read_object, read_saved_cut


@dataclass(frozen=True)
class TrainingProvenance:
    """The content of a model's rnnlm.json, which training/train.py writes."""

    dataset_id: str
    corpus_digest: str
    # The settings mode, context_length and block_length, by which text is split into rows for the model.
    cut: SequencesConfig


def read_training_provenance(folder: Path) -> TrainingProvenance:
    """Return the content of rnnlm.json. Raise ModelError if it is missing or incomplete."""
    try:
        cut, facts = read_saved_cut(folder), read_object(folder / "rnnlm.json")
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: rnnlm.json is missing or damaged; train or register the model again") from error
    if not all(isinstance(facts.get(name), str) for name in ("dataset_id", "corpus_digest")):
        raise ModelError(
            f"{folder}: rnnlm.json does not say what the model was trained on; train or register the model again"
        )
    return TrainingProvenance(facts["dataset_id"], facts["corpus_digest"], SequencesConfig(**cut._asdict()))
