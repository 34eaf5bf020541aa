"""A backup with exit code 0 contains every version, even if files were lost or damaged before the backup."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from flows.command_line import main
from rnnlm.registry.stored_versions import read_store
from rnnlm.storage.home import Home
from rnnlm.storage.stages import find_damage
from rnnlm.tracking.mlflow_store import make_database
from tests.rnnlm.extensions.upkeep.registry_histories import lineage_damage, register_night


@dataclass
class Archive:
    path: Path
    content: bytes  # The original content of the file.
    versions: tuple[str, ...]  # The versions in the rnnlm home at the time of the backup.


class TwoHomes(RuleBasedStateMachine):
    archives: Bundle[Archive] = Bundle("archives")
    templates: Path  # The folder with the homes A and B, and with their originals kept-A and kept-B.

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=self.templates))
        self.backups = self.folder / "backups"
        self.backups.mkdir()
        self.made: list[Archive] = []
        self.restored = 0
        for name in "AB":
            shutil.rmtree(self.templates / name, ignore_errors=True)
            shutil.copytree(self.templates / f"kept-{name}", self.templates / name)

    def command(self, home: Path, *arguments: str) -> int:
        os.environ["RNNLM_HOME"] = str(home)
        return main(list(arguments))

    @initialize(target=archives, name=st.sampled_from("AB"))
    def first_backup(self, name: str) -> object:
        return self.back_up(name)

    @rule(target=archives, name=st.sampled_from("AB"))
    def back_up(self, name: str) -> object:
        """Back up a home.

        If the exit code is 0, the archive must have all versions that were ever registered in this home.
        """
        before = set(self.backups.iterdir())
        if self.command(self.templates / name, "backup", str(self.backups)) != 0:
            return multiple()
        (new,) = set(self.backups.iterdir()) - before
        archive = Archive(new, new.read_bytes(), (f"rnnlm-{name.lower()}/1", f"rnnlm-{name.lower()}/2"))
        self.made.append(archive)
        return archive

    @rule(name=st.sampled_from("AB"))
    def lose_database(self, name: str) -> None:
        (self.templates / name / "mlflow.db").unlink(missing_ok=True)

    @rule(name=st.sampled_from("AB"), file=st.sampled_from(["runs/r1/model.json", "datasets/d2/COMPLETE", "mlflow.db"]))
    def damage_home(self, name: str, file: str) -> None:
        path = self.templates / name / file
        if path.exists():
            path.write_bytes(flipped(path.read_bytes(), 0.5))

    @rule(archive=archives, place=st.floats(0, 1, exclude_max=True))
    def flip_bit(self, archive: Archive, place: float) -> None:
        archive.path.write_bytes(flipped(archive.path.read_bytes(), place))

    @rule(archive=archives)
    def mend(self, archive: Archive) -> None:
        archive.path.write_bytes(archive.content)

    @rule(archive=archives)
    def restore(self, archive: Archive) -> None:
        self.restored += 1
        home = Home(self.folder / f"restored-{self.restored}")
        verified = self.command(home.root, "backup", "--verify", str(archive.path))
        code = self.command(home.root, "restore", str(archive.path))
        assert (code == 0) == (verified == 0)
        if archive.path.read_bytes() == archive.content:
            assert code == 0
        if code == 0:
            found = read_store(home)
            assert tuple(sorted(f"{version.name}/{version.number}" for version in found.versions)) == archive.versions
            for version in found.versions:
                assert lineage_damage(home, version) == []
            for item in found.items:
                if item.kind == "model":
                    assert item.path is not None
                    assert find_damage(item.path / "artifacts") is None

    @invariant()
    def no_archive_is_gone(self) -> None:
        assert all(archive.path.exists() for archive in self.made)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


def flipped(data: bytes, place: float) -> bytes:
    index = int(len(data) * place)
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]


@pytest.mark.slow
def test_no_version_is_ever_lost_with_exit_code_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TwoHomes.templates = tmp_path
    for name in "AB":
        home = Home(tmp_path / name)
        monkeypatch.setenv("RNNLM_HOME", str(home.root))
        make_database(home)
        for night in ("1", "2"):
            register_night(home, f"rnnlm-{name.lower()}", night, 1)
        shutil.copytree(home.root, tmp_path / f"kept-{name}")
    runs = settings(max_examples=12, stateful_step_count=12, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(TwoHomes, settings=runs)
