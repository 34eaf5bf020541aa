"""A backup is whole and small, and a home restored from it elsewhere goes on as the old one would have."""

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rnnlm.errors import HomeError
from rnnlm.generation.generate import sample_model
from rnnlm.home import Home
from rnnlm.records import RunRecord
from rnnlm.registry.lineage import show_version
from rnnlm.registry.model_lookup import list_models, model_folder
from rnnlm.registry.promotion_commands import roll_back
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.stages import is_complete
from rnnlm.upkeep.backup import MANIFEST, back_up
from rnnlm.upkeep.restore import restore_home
from tests.rnnlm.registry.contest import NAME, Contest
from tests.rnnlm.upkeep.registered_home import check_aliases, random_history, register_night, write_folder


def dump_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump())


@pytest.mark.long
def test_a_home_restored_elsewhere_serves_its_champion_and_registers_the_next_version(
    contest: Contest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for quality in ("poor", "good"):
        contest.register(quality)
    old, new = contest.home, Home(tmp_path / "restored ä" / "home")
    listed = list_models(old)
    backup = back_up(old, tmp_path / "backup")
    assert backup.versions == (f"{NAME}/2", f"{NAME}/1")
    assert backup.damaged == ()
    shutil.move(old.root, tmp_path / "gone")
    monkeypatch.setenv("RNNLM_HOME", str(new.root))

    restored = restore_home(new, tmp_path / "backup")
    assert restored.moved_from == old.root
    assert str(old.root) not in dump_of(new.mlflow_database)
    assert list_models(new) == listed
    folder = model_folder(new, f"{NAME}@champion")
    assert folder.is_relative_to(new.root)
    assert show_version(new, NAME, "2").evidence is not None
    dataset = find_dataset(new, contest.dataset.dataset_id)
    assert dataset is not None
    assert is_complete(new.corpora / dataset.corpus_digest[:16])

    (sample,) = sample_model(folder, contest.config.generation).samples
    assert sample.text

    run = RunRecord.model_validate(contest.run.model_copy(update={"folder": new.runs / contest.run.run_id}))
    shutil.copytree(new.runs / f"{contest.run.run_id[:8]}0000good", run.folder)  # noise is added to the good one
    there = Contest(new, contest.config, dataset, run, contest.evaluation, contest.samples)
    third = there.register("fair")
    assert (third.version, third.alias) == (3, "challenger")
    assert third.evidence is not None
    assert third.evidence.comparison == 1
    assert roll_back(new, NAME).version == 1
    assert not old.root.exists()


@pytest.mark.long
def test_mlflow_loads_a_restored_version_by_itself(contest: Contest, tmp_path: Path) -> None:
    import mlflow.pyfunc

    contest.register("good")
    back_up(contest.home, tmp_path / "backup")
    shutil.move(contest.home.root, tmp_path / "gone")
    new = Home(tmp_path / "restored")
    restore_home(new, tmp_path / "backup")
    mlflow.set_tracking_uri(f"sqlite:///{new.mlflow_database}")
    try:
        model = mlflow.pyfunc.load_model(f"models:/{NAME}@champion")
    finally:
        mlflow.set_tracking_uri(None)
    (continuation,) = model.predict([{"prompt": "the cat"}])
    assert continuation["text"]


@pytest.mark.slow
def test_random_registries_survive_backup_and_restore(tracked_home: Home, tmp_path: Path) -> None:
    random_history(tracked_home, seed=6, nights=5)
    held = check_aliases(tracked_home)
    back_up(tracked_home, tmp_path / "backup")
    new = Home(tmp_path / "new")
    restore_home(new, tmp_path / "backup")
    shutil.move(tracked_home.root, tmp_path / "gone")
    assert check_aliases(new) == held


@pytest.mark.long
def test_a_second_backup_copies_only_what_is_new(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    first = back_up(tracked_home, tmp_path / "backup")
    again = back_up(tracked_home, tmp_path / "backup")
    assert first.copied_files > 10
    assert again.copied_files == 0
    register_night(tracked_home, "rnnlm-a", "2", 0)
    second = back_up(tracked_home, tmp_path / "backup")
    corpus = (tracked_home.corpora / "c000000000000002" / "corpus.json").stat().st_size
    assert 2 < second.copied_files < first.copied_files  # mlflow.db and what differs from night 1: equal files are one
    assert second.copied_bytes < tracked_home.mlflow_database.stat().st_size + 20 * corpus
    restore_home(Home(tmp_path / "new"), tmp_path / "backup")
    stored = {path.name for path in (tmp_path / "backup" / "blobs").rglob("*") if path.is_file()}
    manifest = json.loads((tmp_path / "backup" / MANIFEST).read_text(encoding="utf-8"))
    assert stored == {file["sha256"] for file in manifest["files"].values()}


@pytest.mark.long
def test_a_backup_while_versions_are_registered_is_consistent(tracked_home: Home, tmp_path: Path) -> None:
    """Every version in the backup's registry has its files, whatever was registered while it was made."""
    register_night(tracked_home, "rnnlm-a", "first", 1)
    done = threading.Event()
    failures: list[BaseException] = []

    def keep_registering() -> None:
        night = 0
        try:
            while not done.is_set():
                register_night(tracked_home, "rnnlm-a", f"n{night}", 0)
                night += 1
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=keep_registering)
    writer.start()
    try:
        for number in range(3):
            back_up(tracked_home, tmp_path / f"backup{number}")
    finally:
        done.set()
        writer.join()
    assert failures == []
    for number in range(3):
        new = Home(tmp_path / f"new{number}")
        restore_home(new, tmp_path / f"backup{number}")
        versions = list_models(new)
        assert versions
        for version in versions:
            details = show_version(new, version.name, str(version.version))
            for folder in (new.runs / details.run_id, new.datasets / details.dataset_id):
                assert (folder / "COMPLETE").exists()


@pytest.mark.long
def test_an_unfinished_backup_is_refused_and_the_one_before_it_stays_whole(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    folder = tmp_path / "backup"
    back_up(tracked_home, folder)
    (folder / MANIFEST).rename(tmp_path / "kept")
    with pytest.raises(HomeError, match="no complete backup"):
        restore_home(Home(tmp_path / "new"), folder)
    assert not (tmp_path / "new").exists()
    (tmp_path / "kept").rename(folder / MANIFEST)
    register_night(tracked_home, "rnnlm-a", "2", 0)
    blob = next(path for path in (folder / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(HomeError, match="missing or cut off"):
        restore_home(Home(tmp_path / "new"), folder)
    back_up(tracked_home, folder)  # repairs it
    restore_home(Home(tmp_path / "new"), folder)


def test_a_changed_blob_is_noticed(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    back_up(tracked_home, tmp_path / "backup")
    for blob in (path for path in (tmp_path / "backup" / "blobs").rglob("*") if path.is_file()):
        blob.write_bytes(bytes(reversed(blob.read_bytes())))
    with pytest.raises(HomeError, match="differs from its sha256"):
        restore_home(Home(tmp_path / "new"), tmp_path / "backup")
    assert not (tmp_path / "new" / "mlflow.db").exists()


def test_damage_in_the_home_is_reported_and_does_not_stop_the_backup(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    (tracked_home.runs / "r1" / "model.json").write_text("damaged", encoding="utf-8")
    (tracked_home.datasets / "d1" / "sequences.json").unlink()
    backup = back_up(tracked_home, tmp_path / "backup")
    assert set(backup.damaged) == {
        "runs/r1/model.json differs from its sha256",
        "datasets/d1/sequences.json is missing",
    }
    restore_home(Home(tmp_path / "new"), tmp_path / "backup")


def test_a_home_that_is_not_empty_is_refused(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    back_up(tracked_home, tmp_path / "backup")
    with pytest.raises(HomeError, match="is not empty"):
        restore_home(tracked_home, tmp_path / "backup")
    other = Home(tmp_path / "other")
    write_folder(other.corpora / "c", 0, corpus={})
    with pytest.raises(HomeError, match="is not empty"):
        restore_home(other, tmp_path / "backup")


@pytest.mark.long
def test_a_killed_restore_goes_on(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    back_up(tracked_home, tmp_path / "backup")
    blobs, new = tmp_path / "backup" / "blobs", Home(tmp_path / "new")
    manifest = json.loads((tmp_path / "backup" / MANIFEST).read_text(encoding="utf-8"))
    digest = manifest["files"]["runs/r1/model.json"]["sha256"]
    blob = blobs / digest[:2] / digest
    content = blob.read_bytes()
    blob.write_bytes(bytes(len(content)))
    with pytest.raises(HomeError, match="differs"):
        restore_home(new, tmp_path / "backup")
    blob.write_bytes(content)
    restore_home(new, tmp_path / "backup")
    assert [version.name for version in list_models(new)] == ["rnnlm-a"]


def test_a_backup_does_not_go_into_the_home_or_over_other_files(tracked_home: Home, tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="is in the home"):
        back_up(tracked_home, tracked_home.root / "backup")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").touch()
    with pytest.raises(HomeError, match="something else"):
        back_up(tracked_home, tmp_path / "letters")


def test_a_server_s_store_is_named_as_not_covered(
    tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    other = tmp_path / "server.db"
    shutil.copy(tracked_home.mlflow_database, other)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{other}")
    backup = back_up(tracked_home, tmp_path / "backup")
    assert any(f"MLflow at sqlite:///{other}" in what for what in backup.not_covered)
    manifest = json.loads((tmp_path / "backup" / MANIFEST).read_text(encoding="utf-8"))
    assert "mlflow.db" not in manifest["files"]
    assert "runs/r1/model.json" in manifest["files"]
