"""The functions `rnnlm.train` and `rnnlm.load`, each of which needs only one line of Python.

They need neither Prefect nor a server. torch and MLflow are imported inside the functions, because importing them takes
seconds, and wrong arguments are rejected first.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.config.presets import build_config
from rnnlm.corpora.download import check_source
from rnnlm.errors import ConfigError, HomeError, ModelError, TrackingError
from rnnlm.runtime.library_environment import quieten_libraries
from rnnlm.storage.home import Home, checked_home, expanded, find_home

if TYPE_CHECKING:
    from rnnlm.trained_model import Model

AnyPath = str | os.PathLike[str]


def train(
    source: AnyPath,
    *,
    minutes: float | None = None,
    preset: str | None = None,
    home: AnyPath | None = None,
    force: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> "Model":
    """Run the whole pipeline as `rnnlm run` does, and return the registered model.

    Stages whose results exist are skipped, so repeating a call takes only seconds.

    Args:
        source: A file, folder, glob, URL, hf:OWNER/NAME or the name of a known corpus.
        minutes: The minutes of training, for which the network's size and the length of training are chosen.
        preset: The name of a preset to start from, such as "smoke".
        home: The folder that contains all data. It is created if it does not exist. Default: RNNLM_HOME, else `.rnnlm`.
        force: The stages to run again, such as ["training"].
        settings: Settings as in --set, by dotted path: {"training.optimizer.learning_rate": 0.002}.
        more: Further settings, by the short names of `rnnlm run` (epochs, hidden_size, promote), or as a section with
            its fields: model={"kind": "lstm"}.

    Raises:
        ConfigError: A setting is unknown or out of bounds.
        CorpusError: The source is missing, empty or wrongly encoded.
        RnnlmError: Another error, whose message explains how to fix it.
    """
    given = {**({} if minutes is None else {"minutes": minutes}), **(settings or {}), **more}
    config = build_config(preset, corpus=checked_path("source", source), force=force, settings=given)
    place = home_of(home)
    check_source(config.corpus, place)
    quieten_libraries()
    from rnnlm.models.devices import choose_device
    from rnnlm.pipeline import run_pipeline
    from rnnlm.trained_model import open_model

    choose_device(config.training.device)
    try:
        registered = run_pipeline(place, config).registered
        return open_model(place, f"models:/{registered.name}/{registered.version}")
    except TrackingError as error:
        raise ModelError(
            f"the model is trained, but MLflow failed: {error}.\n"
            "Call rnnlm.train again; it keeps the trained model and continues from there."
        ) from error


def load(model: AnyPath | None = None, *, home: AnyPath | None = None) -> "Model":
    """Load a trained model.

    Args:
        model: A registered name (which means its champion), NAME@challenger, NAME/3, models:/NAME@champion, a run's id
            or the beginning of an id, or a folder. None means the champion of the only registered model.
        home: The folder that contains all data. Default: RNNLM_HOME, else `.rnnlm`.

    Raises:
        ModelError: There is no such model; the message lists the registered ones.
        HomeError: There is no such home.
    """
    wanted = None if model is None else checked_path("model", model)
    place = home_of(home)
    is_folder = wanted is not None and expanded(wanted).is_dir()
    if not place.root.is_dir() and not is_folder:
        raise HomeError(
            f"{place.root}: there is no rnnlm home here, so there are no models.\n"
            "Give the folder of a home as home=, or set RNNLM_HOME; rnnlm.train(…) and `rnnlm run` make a home."
        )
    quieten_libraries()
    from rnnlm.trained_model import open_model

    try:
        return open_model(place, wanted)
    except TrackingError as error:
        raise ModelError(
            f"MLflow failed: {error}; try again, or give the folder of a run instead of a registered name"
        ) from error


def home_of(folder: AnyPath | None) -> Home:
    return find_home() if folder is None else checked_home(expanded(checked_path("home", folder)).resolve())


def checked_path(name: str, value: Any) -> str:
    """Return the path `value` as a string. Raise ConfigError if it is empty, or not a string or path.

    `name` is the argument's name in the error.
    """
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name}: expected a text or a path, got {type(value).__name__}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{name}: expected a text or a path, got {text!r}")
    return str(Path(text)) if isinstance(value, os.PathLike) else text
