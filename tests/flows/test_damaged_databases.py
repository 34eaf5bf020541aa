"""Commands on a damaged mlflow.db or prefect.db name the file in at most three lines and do not change it."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.errors import HomeError
from rnnlm.storage.disk_errors import refuse_damaged_database
from rnnlm.storage.home import Home
from tests.registrar import Registrar


def zeroed_header(data: bytearray) -> None:
    data[:100] = bytes(100)


def flipped_schema(data: bytearray) -> None:
    data[data.index(b"CREATE TABLE ")] ^= 1


def other_file(data: bytearray) -> None:
    data[:] = b"this is no database\n" * 500


def cut_to_half(data: bytearray) -> None:
    del data[len(data) // 2 :]


DAMAGES = [zeroed_header, flipped_schema, other_file, cut_to_half]
COMMANDS = [
    ["models"],
    ["models", "show", "rnnlm-toy"],
    ["models", "--best"],
    ["generate", "rnnlm-toy", "--prompt", "the"],
    ["explain", "the cat", "rnnlm-toy"],
    ["tokenize", "rnnlm-toy", "--text", "the"],
    ["promote", "rnnlm-toy/1"],
    ["rollback", "rnnlm-toy"],
    ["export", "rnnlm-toy", "--format", "arpa"],
    ["prune"],
    ["runs"],
    ["status"],
]


def damage_file(path: Path, damage: Callable[[bytearray], None]) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("pragma journal_mode = delete")
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    return bytes(data)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.usefixtures("restored_environment")
def test_a_damaged_registry_is_named(
    registered: Registrar, home: Home, capsys: pytest.CaptureFixture[str], damage: Callable[[bytearray], None]
) -> None:
    assert registered is not None
    data = damage_file(home.mlflow_database, damage)
    for command in COMMANDS:
        capsys.readouterr()
        code = main(command)  # main() catches only rnnlm's own errors, so any other error fails the test.
        told = capsys.readouterr().err
        if code:
            assert "mlflow.db" in told, command
            assert len(told[told.index("rnnlm: ") :].strip().splitlines()) <= 3, command
    assert home.mlflow_database.read_bytes()[-4_000:] == data[-4_000:]


@pytest.mark.parametrize("damage", [zeroed_header, flipped_schema, other_file])
def test_a_damaged_database_is_refused_before_a_server_starts(
    tmp_path: Path, damage: Callable[[bytearray], None]
) -> None:
    path = tmp_path / "prefect.db"
    refuse_damaged_database(path)  # The function accepts a missing file.
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table flow (id text)")
        connection.execute("pragma journal_mode = wal")
    refuse_damaged_database(path)
    damage_file_of = bytearray(path.read_bytes().replace(b"create table", b"CREATE TABLE"))
    damage(damage_file_of)
    path.write_bytes(damage_file_of)
    with pytest.raises(HomeError, match=r"prefect\.db: is damaged .*\n.*rnnlm restore"):
        refuse_damaged_database(path)
    assert path.read_bytes() == damage_file_of


@pytest.mark.long
@pytest.mark.parametrize("command", ["prepare --quiet --corpus", "up --detach"])
def test_a_damaged_prefect_database_ends_a_process_with_a_sentence(home: Home, toy_folder: Path, command: str) -> None:
    """A command on a damaged Prefect database ends with a one-sentence message.

    The command runs in a new process, because in this one it would use the server of other tests.
    """
    home.make(home.prefect)
    (home.prefect / "prefect.db").write_bytes(b"this is no database\n" * 500)
    corpus = [str(toy_folder)] if command.endswith("--corpus") else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    program = [str(Path(sys.executable).with_name("rnnlm")), *command.split(), *corpus]
    done = subprocess.run(program, env=environment | {"RNNLM_HOME": str(home.root)}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "prefect.db: is damaged (file is not a database)" in done.stderr
