"""What a model's folder says of the text the model was trained on."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.home import read_json


@dataclass(frozen=True)
class Origin:
    """As training.outputs.write_model wrote it."""

    dataset_id: str
    corpus_digest: str
    cut: SequencesConfig  # mode, context_length, block_length: text is cut like this wherever the model reads some


def origin_of(folder: Path) -> Origin:
    """ModelError where rnnlm.json is not there, or not whole."""
    facts = read_json(folder / "rnnlm.json")
    cut = ("mode", "context_length", "block_length")
    if not isinstance(facts, dict) or not {"dataset_id", "corpus_digest", *cut} <= set(facts):
        raise ModelError(f"{folder}: rnnlm.json is missing or damaged; train or register the model again")
    return Origin(facts["dataset_id"], facts["corpus_digest"], SequencesConfig(**{name: facts[name] for name in cut}))
