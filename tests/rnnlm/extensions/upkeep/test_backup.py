"""A backup is complete and private, and an rnnlm home that is restored elsewhere works like the original."""

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rnnlm.errors import HomeError
from rnnlm.extensions.upkeep.backup import back_up
from rnnlm.extensions.upkeep.backup_archive import FORMAT, ArchiveWriter, Manifest, find_archive_damage, read_manifest
from rnnlm.extensions.upkeep.restore import restore_home
from rnnlm.generation.generate import sample_model
from rnnlm.registry.lineage import show_version
from rnnlm.registry.model_lookup import list_models, model_folder
from rnnlm.registry.promotion_commands import roll_back
from rnnlm.registry.stored_versions import read_store
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.storage.stages import is_complete
from tests.rnnlm.extensions.upkeep.registry_histories import (
    lineage_damage,
    register_night,
    write_folder,
)
from tests.rnnlm.registry.contest import NAME, Contest
from tests.rnnlm.storage.small_disk import small_disk

__all__ = ["small_disk"]


def dump_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump())


@pytest.mark.long
def test_a_home_restored_elsewhere_serves_its_champion_and_registers_the_next_version(
    contest: Contest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow.pyfunc

    for quality in ("poor", "good"):
        contest.register(quality)
    old, new = contest.home, Home(tmp_path / "restored ä" / "home")
    listed = list_models(old)
    backup = back_up(old, tmp_path / "backup")
    assert backup.versions == (f"{NAME}/2", f"{NAME}/1")
    assert backup.damaged == ()
    shutil.move(old.root, tmp_path / "gone")
    monkeypatch.setenv("RNNLM_HOME", str(new.root))

    restored = restore_home(new, backup.archive)
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
    # The fixture creates its models from the original run. The model `good` is an exact copy of this run.
    shutil.copytree(new.runs / f"{contest.run.run_id[:8]}0000good", run.folder)
    there = Contest(new, contest.config, dataset, run, contest.evaluation, contest.samples)
    third = there.register("fair")
    assert (third.version, third.alias) == (3, "challenger")
    assert third.evidence is not None, third.reason
    assert third.evidence.comparison == 1
    assert roll_back(new, NAME).version == 1
    assert not old.root.exists()
    mlflow.set_tracking_uri(f"sqlite:///{new.mlflow_database}")
    try:  # MLflow can load the restored model without importing rnnlm.
        model = mlflow.pyfunc.load_model(f"models:/{NAME}/2")
    finally:
        mlflow.set_tracking_uri(None)
    assert model.predict([{"prompt": "the cat"}])[0]["text"]


@pytest.mark.long
def test_a_backup_while_versions_are_registered_is_consistent(tracked_home: Home, tmp_path: Path) -> None:
    """A backup during registrations is consistent: it has the files of every version in its registry."""
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
        archives = [back_up(tracked_home, tmp_path / "backups").archive for _ in range(3)]
    finally:
        done.set()
        writer.join()
    assert failures == []
    for number, archive in enumerate(archives):
        new = Home(tmp_path / f"new{number}")
        restore_home(new, archive)
        versions = list_models(new)
        assert versions
        for version in versions:
            details = show_version(new, version.name, str(version.version))
            for folder in (new.runs / details.run_id, new.datasets / details.dataset_id):
                assert (folder / "COMPLETE").exists()


@pytest.mark.long
def test_a_backup_never_touches_another(tracked_home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear all")
    register_night(tracked_home, "rnnlm-a", "1", 1)
    first = back_up(tracked_home, folder).archive
    before = first.read_bytes()
    tracked_home.mlflow_database.unlink()
    with pytest.raises(HomeError, match="registry is missing"):
        back_up(tracked_home, folder)
    other = Home(tmp_path / "other")
    write_folder(other.corpora / "c", 0, corpus={})
    second = back_up(other, folder).archive
    assert first.read_bytes() == before
    assert {path.name for path in folder.iterdir()} == {"letter.txt", first.name, second.name}
    assert restore_home(Home(tmp_path / "new"), first).left_out == ()


@pytest.mark.parametrize("cut", [0, 1, 5_000])
def test_a_backup_that_was_cut_off_is_refused(tracked_home: Home, tmp_path: Path, cut: int) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    archive = back_up(tracked_home, tmp_path / "backup").archive
    with archive.open("r+b") as stream:
        stream.truncate(max(0, archive.stat().st_size - cut) if cut else 0)
    if cut == 1:  # The manifest's position is stored in several trailing lines. One of them is enough.
        assert restore_home(Home(tmp_path / "new"), archive).left_out == ()
        return
    with pytest.raises(HomeError, match="not a complete backup"):
        restore_home(Home(tmp_path / "new"), archive)
    assert not (tmp_path / "new").exists()


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(place)
        (value,) = stream.read(1)
        stream.seek(place)
        stream.write(bytes([value ^ 4]))


def test_a_damaged_file_is_named_and_the_rest_is_restored(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    archive = back_up(tracked_home, tmp_path / "backup").archive
    manifest = read_manifest(archive)
    flip(archive, manifest.files["runs/r1/model.json"].offset + 3)
    # Damage the header of the file in the archive, but not the file's content.
    flip(archive, manifest.files["datasets/d1/dataset.json"].offset - 512)
    assert find_archive_damage(archive, manifest) == ("runs/r1/model.json",)
    new = Home(tmp_path / "new")
    restored = restore_home(new, archive)
    assert restored.left_out == ("runs/r1/model.json",)
    assert [version.name for version in list_models(new)] == ["rnnlm-a"]
    assert not (new.runs / "r1" / "model.json").exists()
    assert is_complete(new.datasets / "d1")


@pytest.mark.long
def test_a_flipped_bit_anywhere_is_harmless_or_found(tracked_home: Home, tmp_path: Path) -> None:
    """A flipped bit anywhere in a backup is found or harmless, both for verifying and for restoring.

    If a restore reports no error, every file of the restored versions is intact.
    """
    register_night(tracked_home, "rnnlm-a", "1", 1)
    archive = back_up(tracked_home, tmp_path / "backup").archive
    size = archive.stat().st_size
    for number, place in enumerate([*range(0, size, size // 12), *range(size - 6_000, size, 400)]):
        flip(archive, place)
        manifest = read_manifest(archive)
        new = Home(tmp_path / f"new{number}")
        restored = restore_home(new, archive)
        assert restored.left_out == find_archive_damage(archive, manifest)
        if not restored.left_out:
            (version,) = read_store(new).versions
            assert lineage_damage(new, version) == []
        flip(archive, place)


def test_an_archive_unpacks_with_tar(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    archive = back_up(tracked_home, tmp_path / "backup").archive
    assert archive.stat().st_mode & 0o777 == 0o600
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "unpacked"], check=True)
    assert is_complete(tmp_path / "unpacked" / "runs" / "r1")


def archive_of(folder: Path, texts: dict[str, bytes], **change: Any) -> Path:
    """Return an archive of `texts` with valid digests. The arguments `change` replace fields of the manifest."""
    archive, content = folder / "given.tar", folder / "content"
    with archive.open("w+b") as stream:
        writer = ArchiveWriter(stream)
        for name, data in texts.items():
            content.write_bytes(data)
            writer.add(name, content)
        manifest = Manifest(
            format=FORMAT, homes=(Path("/old"),), made="", rnnlm="", versions=(), damaged=(), files=writer.files
        )
        writer.close(manifest.model_copy(update=change))
    return archive


def refused_untouched(folder: Path, archive: Path, told: str) -> None:
    """Assert that the archive is refused with the message `told`, and that nothing is written."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(HomeError, match=told) as error:
        restore_home(Home(folder / "new"), archive)
    assert len(str(error.value).splitlines()) <= 3
    assert str(error.value).isascii()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/absolute",
        "runs/../../outside",
        "runs/a\x1b[2J",
        "runs//a",
        "text",
        "password",
        "up.json",
        "own_layers.json",
        "mlflow.db-wal",
        "MLFLOW.DB",
        "prefect/profiles.toml",
        "prefect/logging.yml",
        "prefect/prefect.db/x",
        "mlflow-accounts/accounts.db",
        "verified/runs-a.json",
        "locks/up.lock",
        "locks/flow-runs/a",
        "logs/up.log",
        "fetched/a/model.json",
        "tokenizers/a/tokenizer.json",
        "corpora/downloads/a",
        "runs",
        "runs/.hidden",
        "runs/a/.hidden/b",
        ".restoring.json",
        "runs/" + "a/" * 3_000 + "b",
    ],
    ids=lambda name: ascii(name)[:30],
)
def test_a_name_that_no_backup_writes_is_refused(tmp_path: Path, name: str) -> None:
    refused_untouched(
        tmp_path, archive_of(tmp_path, {"runs/r/a": b"a", name: b"evil"}), "not a backup of this version of rnnlm"
    )


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    refused_untouched(tmp_path, archive_of(tmp_path, {"runs/a": b"a", "runs/a/b": b"b"}), "name of its folder")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"format": -1},
        {"homes": ()},
        {"homes": (Path("relative"),)},
        {"homes": (Path("/a/../b"),)},
        {"homes": (Path("/a\nb"),)},
        {"damaged": ("\x1b]0;title",)},
        {"made": "\x1b[2J"},
    ],
    ids=ascii,
)
def test_a_manifest_that_no_backup_writes_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    refused_untouched(
        tmp_path, archive_of(tmp_path, {"runs/r/a": b"a"}, **change), "not a backup of this version of rnnlm"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 2**70},
        {"offset": -1},
        {"bytes": -1},
        {"bytes": 2**70},
        {"bytes": 50_000},
        {"sha256": "no"},
        {"offset": 0},
    ],
    ids=str,
)
def test_a_place_outside_the_archive_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    files = read_manifest(archive_of(tmp_path, {"runs/r/a": b"a"})).files
    changed = {name: file.model_copy(update=change) for name, file in files.items()}
    archive = archive_of(tmp_path, {"runs/r/a": b"a"}, files=changed)
    refused_untouched(tmp_path, archive, "not a backup of this version of rnnlm")


def test_one_piece_has_one_name(tmp_path: Path) -> None:
    (file,) = read_manifest(archive_of(tmp_path, {"runs/r/a": bytes(8_000)})).files.values()
    many = {f"runs/r/{number}": file for number in range(250)}
    refused_untouched(
        tmp_path,
        archive_of(tmp_path, {"runs/r/a": bytes(8_000)}, files=many),
        "lies outside the archive or overlaps another file",
    )


def changed_database(database: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("commit") if connection.in_transaction else None
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = delete")
    return database.read_bytes()


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (
            [f"create trigger t after update on experiments begin update experiments set name = ({ENDLESS}); end"],
            "the trigger 't'",
        ),
        (
            [
                "drop trigger prevent_secrets_aad_mutation",
                "create trigger prevent_secrets_aad_mutation before update on secrets for each row when 1 = 1 "
                f"begin {ENDLESS}; end",
            ],
            "prevent_secrets",
        ),
        ([f"create view v as {ENDLESS}"], "the view 'v'"),
        (["create virtual table w using fts5(a)"], "virtual table 'w'"),
        (["drop table model_versions"], "not a database of MLflow"),
        (["alter table runs rename column artifact_uri to elsewhere"], "not a database of MLflow"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_database_that_runs_something_is_refused(
    mlflow_template: Path, tmp_path: Path, statements: list[str], told: str
) -> None:
    shutil.copy(mlflow_template, tmp_path / "changed.db")
    data = changed_database(tmp_path / "changed.db", *statements)
    refused_untouched(tmp_path, archive_of(tmp_path, {"mlflow.db": data, "runs/r/a": b"a"}), told)


@pytest.mark.parametrize(
    "data", [b"", b"junk" * 1_000, b"SQLite format 3\0" + bytes(4_000)], ids=["empty", "junk", "head"]
)
@pytest.mark.parametrize("name", ["mlflow.db", "prefect/prefect.db"])
def test_what_is_no_database_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    refused_untouched(
        tmp_path, archive_of(tmp_path, {"runs/r/a": b"a", name: data}), f"{name} in this backup is not a database"
    )


@pytest.mark.long
def test_what_is_restored_is_private(tracked_home: Home, tmp_path: Path) -> None:
    """Other users cannot read restored files. Ten thousand small files are restored within seconds."""
    register_night(tracked_home, "rnnlm-a", "1", 1)
    new = Home(tmp_path / "new")
    restore_home(new, back_up(tracked_home, tmp_path / "backup").archive)
    files = [path for path in new.root.rglob("*") if path.is_file() and path.parent != new.locks]
    assert {path.stat().st_mode & 0o777 for path in files if new.verified not in path.parents} == {0o600}
    start = time.monotonic()
    restored = restore_home(Home(tmp_path / "many"), archive_of(tmp_path, {f"runs/r/{n}": b"" for n in range(10_000)}))
    assert restored.files == 10_000
    assert time.monotonic() - start < 20  # If each file were synced, only 100 files per second would be written.


def test_a_device_is_no_backup(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for given in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(HomeError, match="is a device or a pipe"):
            restore_home(Home(tmp_path / "new"), given)


def test_a_home_of_symbolic_links_is_backed_up_and_restored(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    disk, root = tmp_path / "disk", tracked_home.root
    disk.mkdir()
    for name in ("artifacts/experiments", "corpora", "datasets", "runs"):
        (root / name).rename(disk / name.replace("/", "-"))
        (root / name).symlink_to(disk / name.replace("/", "-"))
    archive = back_up(tracked_home, tmp_path / "backup").archive
    new = Home(tmp_path / "new")
    for name in ("artifacts", "runs"):
        (tmp_path / "new disk" / name).mkdir(parents=True)
        new.root.mkdir(exist_ok=True)
        (new.root / name).symlink_to(tmp_path / "new disk" / name)
    assert restore_home(new, archive).left_out == ()
    shutil.rmtree(root)
    shutil.rmtree(disk)
    (version,) = read_store(new).versions
    assert lineage_damage(new, version) == []
    (model,) = (item for item in read_store(new).items if item.name == version.facts["logged_model_id"])
    assert model.path is not None
    assert is_complete(model.path / "artifacts")


def test_damage_in_the_home_is_reported_and_does_not_stop_the_backup(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    (tracked_home.runs / "r1" / "model.json").write_text("damaged", encoding="utf-8")
    (tracked_home.datasets / "d1" / "sequences.json").unlink()
    backup = back_up(tracked_home, tmp_path / "backup")
    assert set(backup.damaged) == {
        "runs/r1/model.json differs from its sha256; backed up as it is",
        "datasets/d1/sequences.json is missing",
    }
    assert restore_home(Home(tmp_path / "new"), backup.archive).damaged == backup.damaged


@pytest.mark.long
def test_a_killed_restore_is_resumed(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    archive, new = back_up(tracked_home, tmp_path / "backup").archive, Home(tmp_path / "new")
    with (
        mock.patch("rnnlm.extensions.upkeep.restore.move_locations", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        restore_home(new, archive)
    assert not new.mlflow_database.exists()
    restore_home(new, archive)
    assert [version.name for version in list_models(new)] == ["rnnlm-a"]


def test_wrong_places_are_refused(tracked_home: Home, tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="is in the home"):
        back_up(tracked_home, tracked_home.root / "backup")
    (tmp_path / "letter").touch()
    with pytest.raises(HomeError, match="is a file"):
        back_up(tracked_home, tmp_path / "letter")
    with pytest.raises(HomeError, match="not a complete backup"):
        restore_home(Home(tmp_path / "new"), tmp_path / "letter")
    with pytest.raises(HomeError, match="it has no backup"):
        restore_home(Home(tmp_path / "new"), tmp_path)
    archive, other = back_up(tracked_home, tmp_path / "backup").archive, Home(tmp_path / "other")
    write_folder(other.corpora / "c", 0, corpus={})
    for taken in (tracked_home, other):
        with pytest.raises(HomeError, match="is not empty"):
            restore_home(taken, archive)


def test_a_server_s_store_is_named_as_not_covered(
    tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    other = tmp_path / "server.db"
    shutil.copy(tracked_home.mlflow_database, other)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{other}")
    backup = back_up(tracked_home, tmp_path / "backup")
    assert any(f"MLflow at sqlite:///{other}" in what for what in backup.not_covered)
    files = read_manifest(backup.archive).files
    assert "mlflow.db" not in files
    assert "runs/r1/model.json" in files


def test_a_full_disk_leaves_earlier_backups_and_a_sentence(tracked_home: Home, small_disk: Path) -> None:
    register_night(tracked_home, "rnnlm-a", "1", 1)
    archive = back_up(tracked_home, small_disk).archive
    content = archive.read_bytes()
    (tracked_home.runs / "r1" / "model.json").write_bytes(bytes(9_000_000))
    with pytest.raises(HomeError, match="no space is left"):
        back_up(tracked_home, small_disk)
    assert [path.name for path in small_disk.iterdir()] == [archive.name]
    assert archive.read_bytes() == content


@pytest.fixture
def disk_of_100_files(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a file system of 1 MiB and 100 files. The test is skipped if mounting is not permitted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=1m,nr_inodes=100", "tmpfs"]
    if not shutil.which("mount") or subprocess.run(["mount", *options, disk], capture_output=True).returncode:
        pytest.skip("mounting is not permitted")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ({f"runs/r/{number}": b"" for number in range(150)}, "needs 0 bytes and 151 files"),
        ({"runs/r/a": bytes(2 << 20)}, "needs 2,097,152 bytes and 2 files"),
        ({f"runs/r/{number}": b"a" for number in range(80)}, None),
    ],
    ids=["files", "bytes", "fits"],
)
def test_what_a_disk_cannot_hold_is_refused_before_it_is_written(
    tmp_path: Path, disk_of_100_files: Path, texts: dict[str, bytes], told: str | None
) -> None:
    archive = archive_of(tmp_path, texts)
    if told is None:
        assert restore_home(Home(disk_of_100_files / "new"), archive).files == len(texts)
        return
    with pytest.raises(HomeError, match=told):
        restore_home(Home(disk_of_100_files / "new"), archive)
    assert list(disk_of_100_files.iterdir()) == []


@pytest.mark.slow
def test_100_000_empty_files_are_restored_in_seconds(tmp_path: Path) -> None:
    many = {f"runs/{number // 1_000}/{number}": b"" for number in range(100_000)}
    archive = archive_of(tmp_path, many)
    start = time.monotonic()
    assert restore_home(Home(tmp_path / "new"), archive).files == len(many)
    assert time.monotonic() - start < 60
