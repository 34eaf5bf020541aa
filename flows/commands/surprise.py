"""Show the text on which a model's loss is high, with `rnnlm surprise`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.command import Session
from flows.commands.options import Model
from rnnlm.errors import HomeError
from rnnlm.registry.model_lookup import run_model_folder

HEADING = "Measure"


def surprise_command(
    session: Session,
    model: Model = None,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder to which the plots are copied.")
    ] = None,
) -> None:
    """Show in which sentences, at which positions and for which tokens a model's loss is high.

    rnnlm surprise --pictures plots
    """
    folder = run_model_folder(session.home, model)
    from rnnlm.extensions.surprise.surprise_measurement import surprise_of_model
    from rnnlm.extensions.surprise.surprise_page import surprise_page

    found = surprise_of_model(session.home, folder)
    if pictures is not None:
        copies = tuple(copy_picture(picture, pictures) for picture in found.pictures)
        found = found.model_copy(update={"pictures": copies})
    session.print_result(surprise_page(found).text(), found)


def copy_picture(picture: Path, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(picture, folder))
    except OSError as error:
        raise HomeError(f"--pictures {folder}: not writable ({error.strerror}); choose another folder") from error
