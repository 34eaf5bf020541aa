"""Find the scoring model by any of its names, identify it by its bytes, and load it."""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.errors import ModelError
from rnnlm.home import Home, digest_of, file_digest
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import TrainingProvenance, read_training_provenance
from rnnlm.registry.model_lookup import list_models, model_folder
from rnnlm.scoring.document_scores import Scorer
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.tokenizers.text_tokenizer import SETTINGS_FILE, load_tokenizer
from rnnlm.training.devices import choose_device


@dataclass(frozen=True)
class FoundModel:
    """A model's folder, not loaded yet."""

    reference: str  # as the caller named it
    folder: Path
    digest: str  # sha256 of weights, tokenizer and how text is cut
    origin: TrainingProvenance

    def load(self, config: ScoringConfig) -> Scorer:
        """The model on the configured device, with its tokenizer."""
        model = load_model(self.folder, str(choose_device(config.device)))
        return Scorer(model.language_model, load_tokenizer(self.folder), self.origin.cut, config)


def find_model(home: Home, reference: str | None) -> FoundModel:
    """The named model, or the champion of the only registered model; else ModelError."""
    reference = reference or only_champion(home)
    return model_in(model_folder(home, reference), reference)


def model_in(folder: Path, reference: str) -> FoundModel:
    origin = read_training_provenance(folder)
    files = {name: file_digest(folder / name) for name in ("model.safetensors", "tokenizer.json", SETTINGS_FILE)}
    digest = digest_of({"files": files, "cut": [origin.cut.mode, origin.cut.context_length]})
    return FoundModel(reference, folder, digest, origin)


def only_champion(home: Home) -> str:
    """models:/NAME@champion if exactly one model has one; else ModelError."""
    names = sorted({version.name for version in list_models(home) if "champion" in version.aliases})
    if len(names) == 1:
        return f"models:/{names[0]}@champion"
    there = f"there are {len(names)}: {', '.join(names[:8])}" if names else "there is none yet (rnnlm run makes one)"
    raise ModelError(
        f"scoring.model: expected one champion, {there};\n"
        "name a model: rnnlm score --model models:/NAME@champion,\n"
        "or in a deployment's parameters in prefect.yaml: {config: {model: models:/NAME@champion}}"
    )
