"""The model a service answers with, and which one that is after the alias has moved."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.home import Home
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.model_lookup import find_version, known_models, list_models, model_folder
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from rnnlm.tracking.mlflow_store import is_empty


@dataclass(frozen=True, eq=False)  # two are the same only if they are one
class LoadedModel:
    """Never changed once loaded: a request keeps the one it began with."""

    label: str  # models:/NAME/3, or the folder
    model: ElmanLanguageModel
    tokenizer: TextTokenizer
    cut: SequencesConfig  # as its training text was cut; texts to score are cut the same

    @cached_property
    def weights(self) -> InferenceWeights:
        """As single steps read them: made once, for all prompts."""
        return InferenceWeights(self.model)


@dataclass(frozen=True)
class Followed:
    """What is to be served: a folder for good, or whatever version an alias names."""

    home: Home
    folder: Path | None = None
    name: str = ""
    alias: str = ""

    def label(self) -> str:
        """Of the model it stands for now, in the words of LoadedModel. ModelError where the alias names none."""
        if self.folder is not None:
            return str(self.folder)
        version = None if is_empty(self.home) else find_version(self.home, self.name, self.alias, None)
        if version is None:
            raise ModelError(f"models:/{self.name}@{self.alias}: no version has this alias;\n{known_models(self.home)}")
        return f"models:/{self.name}/{version.version}"


def followed(home: Home, wanted: str | None) -> Followed:
    """`wanted`: a registered name (its champion), or whatever names a model; None: the only registered name's champion.

    ModelError where that is none or several.
    """
    if wanted is not None and Path(wanted).expanduser().is_dir():  # the registry need not be there
        return Followed(home, folder=model_folder(home, wanted))
    names = sorted({version.name for version in list_models(home)})
    if wanted is None:
        if len(names) != 1:
            raise ModelError(
                f"which model? Give a registered name, a run folder or models:/NAME@ALIAS;\n{known_models(home)}"
            )
        wanted = names[0]
    if wanted in names:
        return Followed(home, name=wanted, alias="champion")
    if wanted.startswith("models:/") and "@" in wanted:
        name, _, alias = wanted.removeprefix("models:/").partition("@")
        return Followed(home, name=name, alias=alias)
    return Followed(home, folder=model_folder(home, wanted))


def load(home: Home, label: str) -> LoadedModel:
    """The model of a Followed.label(). ModelError where it cannot be loaded."""
    folder = model_folder(home, label)
    return LoadedModel(
        label, load_model(folder).language_model, load_tokenizer(folder), read_training_provenance(folder).cut
    )
