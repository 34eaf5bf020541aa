"""Files that may contain secrets are accessible only to the user, with any umask and in rnnlm homes of any version."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlm.extensions.upkeep.backup import back_up
from rnnlm.extensions.upkeep.restore import restore_home
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import prepare_store


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    """Return the databases, backups and files of Prefect that another user can open.

    Another user can open a file only if all folders above it are accessible.
    """
    found = [path for path in folder.rglob("*") if path.is_file() and (".db" in path.name or "prefect" in path.parts)]
    found += folder.rglob("*.tar")
    return [str(path) for path in found if path.stat().st_mode & 0o077 and enterable(path.parent, folder)]


def enterable(folder: Path, top: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (folder, *folder.parents) if place.is_relative_to(top))


@pytest.mark.long
def test_databases_and_backups_are_private(home: Home, tmp_path: Path) -> None:
    prepare_store(home)
    home.make(home.prefect)
    assert home.prefect.stat().st_mode & 0o777 == 0o700
    assert home.mlflow_database.stat().st_mode & 0o777 == 0o600
    archive = back_up(home, tmp_path / "backups").archive
    assert archive.stat().st_mode & 0o777 == 0o600
    new = Home(tmp_path / "new")
    restore_home(new, archive)
    for folder in (home.root, new.root, tmp_path / "backups"):
        assert readable_by_others(folder) == []


def test_a_home_of_an_older_version_is_mended_when_it_is_opened(home: Home) -> None:
    home.prefect.mkdir(parents=True)
    home.prefect.chmod(0o755)
    for path in (home.mlflow_database, home.prefect / "prefect.db", home.prefect / "prefect.db-wal"):
        path.touch(0o644)
    assert len(readable_by_others(home.root)) == 3
    home.make(home.prefect)
    assert readable_by_others(home.root) == []
    assert home.mlflow_database.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_commands_make_nothing_that_others_may_write_to(home: Home, tmp_path: Path) -> None:
    """Commands create no folder to which other users can write, even if the umask permits it.

    A user who can write to an rnnlm home can run code as its owner.
    """
    (tmp_path / "text.txt").write_text("".join(f"the cat sees the dog {n} .\n" for n in range(300)))
    output = tmp_path / "written"
    commands = (
        ["prepare", "--corpus", str(tmp_path / "text.txt"), "--preset", "smoke", "--quiet"],
        ["env"],
        ["backup", str(output)],
    )
    for command in commands:
        run = [sys.executable, "-m", "flows.command_line", *command]
        subprocess.run(run, umask=0o000, check=True, capture_output=True, timeout=300)
    made = [path for folder in (home.root, output) for path in (folder, *folder.rglob("*"))]
    assert len(made) > 20
    assert [str(path) for path in made if not path.is_symlink() and path.stat().st_mode & 0o022] == []
