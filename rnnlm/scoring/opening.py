"""The model that scores: found by any of its names, told apart by its bytes, and loaded."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import ScoringConfig, SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.home import Home, digest_of, file_digest, read_json
from rnnlm.models.building import load_model
from rnnlm.registry.lookup import list_models, model_folder
from rnnlm.scoring.scores import Scorer
from rnnlm.tokenizers.face import SETTINGS_FILE, load_tokenizer
from rnnlm.training.devices import choose_device


@dataclass(frozen=True)
class FoundModel:
    """A model's folder, not loaded yet."""

    reference: str  # the name it was asked for by
    folder: Path
    digest: str  # sha256 over its weights, its tokenizer and how its text was cut
    dataset_id: str
    corpus_digest: str
    cut: SequencesConfig

    def load(self, config: ScoringConfig) -> Scorer:
        """The model on the configured device, with its tokenizer."""
        model = load_model(self.folder, str(choose_device(config.device)))
        return Scorer(model.language_model, load_tokenizer(self.folder), self.cut, config)


def find_model(home: Home, reference: str | None) -> FoundModel:
    """The named model, or the champion of the only registered model. ModelError where there is none."""
    reference = reference or only_champion(home)
    return model_in(model_folder(home, reference), reference)


def model_in(folder: Path, reference: str) -> FoundModel:
    facts = read_json(folder / "rnnlm.json")
    if not isinstance(facts, dict):
        raise ModelError(f"{folder}: rnnlm.json is missing or damaged; train or register the model again")
    cut = SequencesConfig(**{name: facts[name] for name in ("mode", "context_length", "block_length")})
    files = {name: file_digest(folder / name) for name in ("model.safetensors", "tokenizer.json", SETTINGS_FILE)}
    digest = digest_of({"files": files, "cut": [cut.mode, cut.context_length]})
    return FoundModel(reference, folder, digest, facts["dataset_id"], facts["corpus_digest"], cut)


def only_champion(home: Home) -> str:
    """models:/NAME@champion, where just one model has one; else ModelError."""
    names = sorted({version.name for version in list_models(home) if "champion" in version.aliases})
    if len(names) == 1:
        return f"models:/{names[0]}@champion"
    there = f"there are {len(names)}: {', '.join(names[:8])}" if names else "there is none yet (rnnlm run makes one)"
    raise ModelError(f"scoring.model: expected one champion, {there};\nor name a model: --model models:/NAME@champion")
