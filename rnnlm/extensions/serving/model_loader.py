"""Load the model that a service serves, from a folder or by a registry alias."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.extensions.serving.messages import ModelFacts
from rnnlm.extensions.serving.model_facts import read_model_facts
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.model_lookup import find_version, full_reference, known_models, model_folder
from rnnlm.storage.home import Home, expanded
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from rnnlm.tracking.mlflow_store import is_empty


@dataclass(frozen=True, eq=False)  # With eq=False, only the same object is equal, and not a second copy of the model.
class LoadedModel:
    """A loaded model, which never changes. A request keeps the model with which it started."""

    label: str  # The name of the model's version, such as models:/NAME/3, or the model's folder.
    model: LanguageModel
    tokenizer: TextTokenizer
    # The settings by which the training text was split into rows, and by which scored texts are split.
    cut: SequencesConfig
    facts: ModelFacts

    @cached_property
    def weights(self) -> InferenceWeights:
        """The weights in a layout for single steps. They are prepared once for all prompts."""
        return InferenceWeights(self.model)


@dataclass(frozen=True)
class ModelReference:
    """A reference to the model to serve, which is a fixed folder or the version that an alias currently names."""

    home: Home
    folder: Path | None = None
    name: str = ""
    alias: str = ""

    def label(self) -> str:
        """Return the label of the current model: the folder, or the version with the alias.

        Raise ModelError if no version has this alias.
        """
        if self.folder is not None:
            return str(self.folder)
        version = None if is_empty(self.home) else find_version(self.home, self.name, self.alias, None)
        if version is None:
            raise ModelError(f"models:/{self.name}@{self.alias}: no version has this alias;\n{known_models(self.home)}")
        return f"models:/{self.name}/{version.number}"


def resolve_reference(home: Home, wanted: str | None) -> ModelReference:
    """Return a reference to the model that full_reference() names.

    Raise ModelError unless exactly one model matches.
    """
    if wanted is not None and expanded(wanted).is_dir():  # A folder is loaded directly, so no registry is needed.
        return ModelReference(home, folder=model_folder(home, wanted))
    reference = full_reference(home, wanted)
    if reference.startswith("models:/") and "@" in reference:
        name, _, alias = reference.removeprefix("models:/").partition("@")
        return ModelReference(home, name=name, alias=alias)
    return ModelReference(home, folder=model_folder(home, reference))


def load_served_model(home: Home, label: str) -> LoadedModel:
    """Load the model with this label; see ModelReference.label(). Raise ModelError if it cannot be loaded."""
    folder = model_folder(home, label)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    cut = read_training_provenance(folder).cut
    return LoadedModel(label, model, tokenizer, cut, read_model_facts(home, label, folder, model, tokenizer))
