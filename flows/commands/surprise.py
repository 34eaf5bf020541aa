"""surprise: where a model's predictions are bad."""

import argparse
import shutil
from pathlib import Path

from flows.commands.models import listen
from flows.commands.parser import MODEL, Commands, Say, add
from rnnlm.errors import HomeError
from rnnlm.home import Home


def add_commands(commands: Commands) -> None:
    sub = add(commands, "surprise", surprise, "where a model is surprised: its loss by sentence, position, frequency")
    sub.add_argument("model", metavar="MODEL", help=f"{MODEL} whose run is in this home")
    sub.add_argument("--pictures", metavar="FOLDER", type=Path, help="copy the pictures there")


def surprise(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    from rnnlm.evaluation.surprise.surprise_measurement import surprise_of_model
    from rnnlm.registry.model_lookup import run_model_folder
    from rnnlm.reports.surprise_page import surprise_text

    found = surprise_of_model(home, run_model_folder(home, options.model))
    if options.pictures is not None:
        copies = tuple(copied(picture, options.pictures) for picture in found.pictures)
        found = found.model_copy(update={"pictures": copies})
    say(surprise_text(found), found.model_dump(mode="json"))


def copied(picture: Path, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(picture, folder))
    except OSError as error:
        raise HomeError(f"--pictures {folder}: cannot be written to ({error.strerror}); give another folder") from error
