"""Find the model that scores texts, identify it by a digest, and load it.

Any kind of reference to a model is allowed.
"""

from dataclasses import dataclass
from pathlib import Path

from rnnlm.extensions.scoring.document_scores import Scorer
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.models.devices import choose_device
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import TrainingProvenance, read_training_provenance
from rnnlm.registry.bundle import model_digest
from rnnlm.registry.model_lookup import full_reference, model_folder
from rnnlm.storage.home import Home, digest_of, file_digest
from rnnlm.tokenizers.text_tokenizer import SETTINGS_FILE, load_tokenizer


@dataclass(frozen=True)
class FoundModel:
    """A model that was found but is not loaded yet."""

    reference: str  # The reference in the complete form that full_reference() returns, such as models:/NAME@champion.
    folder: Path
    digest: str  # The sha256 of the model, its tokenizer, and the settings by which text is split into rows.
    origin: TrainingProvenance

    def load(self, config: ScoringConfig) -> Scorer:
        """Load the model and its tokenizer on the configured device."""
        model = load_model(self.folder, str(choose_device(config.device)))
        return Scorer(model, load_tokenizer(self.folder), self.origin.cut, config)


def find_model(home: Home, reference: str | None) -> FoundModel:
    """Find the model that full_reference() names. Raise ModelError if there is none."""
    reference = full_reference(home, reference)
    return model_in(model_folder(home, reference), reference)


def model_in(folder: Path, reference: str) -> FoundModel:
    origin = read_training_provenance(folder)
    files = {name: file_digest(folder / name) for name in ("tokenizer.json", SETTINGS_FILE)}
    files["model.safetensors"] = model_digest(folder)
    digest = digest_of({"files": files, "cut": [origin.cut.mode, origin.cut.context_length]})
    return FoundModel(reference, folder, digest, origin)
