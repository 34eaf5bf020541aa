"""A local Ray cluster of two nodes gives the same results as one process, even if one of its processes is killed."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.runtime.polling import poll_until
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from tests.ray_cluster import ROOT, two_nodes, workers_that_run

pytest.importorskip("prefect_ray", reason='the extra "ray" is not installed')
PATIENCE_SECONDS = 500
SHARDS = 9  # The number of shards of 2 MiB in the text.


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with two_nodes() as address:
        yield address


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 17 MB of words that follow Zipf's law."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "text.txt"
    with path.open("w") as file:
        size = 0
        while size < 17_000_000:
            words = np.minimum(generator.zipf(1.3, 100_000), 5_000)
            breaks = np.where(generator.random(len(words)) < 0.07, " .\n", " ")
            size += file.write("".join(f"w{word}{end}" for word, end in zip(words, breaks, strict=True)) + "\n")
    return path


@pytest.fixture(scope="module")
def expected(text: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """Return the contents of the database that a single process writes, to compare them with Ray's database."""
    home = Home(tmp_path_factory.mktemp("local"))
    with prepare(home, text, "local", "") as process:
        assert process.wait(PATIENCE_SECONDS) == 0
    return contents(home)


def prepare(home: Home, text: Path, engine: str, address: str) -> "subprocess.Popen[bytes]":
    options = ["--set", "tokenizer.kind=word", "--engine", engine]
    options += ["--ray-address", address] if address else []
    return rnnlm(home, "prepare", "--corpus", str(text), *options)


def rnnlm(home: Home, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", "from flows.command_line import console_entry; console_entry()", *arguments]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT), "RNNLM_HOME": str(home.root)})


def contents(home: Home) -> list[tuple[Any, ...]]:
    """Return the row of the `dataset` table, and the number of rows and a digest of every other table."""
    [database] = home.datasets.glob("*/sequences.duckdb")
    with duckdb.connect(str(database), read_only=True) as connection:
        found = connection.execute("select dataset_id, corpus_digest, provenance from dataset").fetchall()
        for name, columns in {
            "shifted_sequences": "split::varchar, sequence_id, token_ids::varchar",
            "documents": "document_id, split::varchar, source_file, byte_offset, sha256, predicted_tokens",
            "tokens": "token_id::varchar, token",
        }.items():
            digest = f"select count(*), count(distinct ({columns})), bit_xor(hash({columns})) from {name}"
            found += connection.execute(digest).fetchall()
    return found


def done(home: Home) -> dict[Path, int]:
    """Return the time at which each complete shard was written."""
    return {path: path.stat().st_mtime_ns for path in home.shards.rglob("*.documents.parquet")}


def wait_for_shards(home: Home, count: int) -> None:
    assert poll_until(lambda: len(done(home)) >= count, PATIENCE_SECONDS, every_seconds=0.02)


def completed(home: Home, name: str) -> int:
    """Return the number of task runs with this name that have completed."""
    query = "select count(*) from task_run where name like ? || ' %' and state_name = 'Completed'"
    with sqlite3.connect(home.prefect / "prefect.db") as connection:
        return int(connection.execute(query, [name]).fetchone()[0])


def busy_workers() -> list[psutil.Process]:
    return workers_that_run("tokenize_shard")


@pytest.mark.slow
def test_a_ray_cluster_makes_the_same_dataset_though_a_worker_is_killed(
    address: str, text: Path, expected: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    with prepare(home, text, "ray", address) as process:
        wait_for_shards(home, 2)
        assert poll_until(lambda: bool(busy_workers()), 60, every_seconds=0.01)
        busy_workers()[0].kill()
        assert len(done(home)) < SHARDS
        assert process.wait(PATIENCE_SECONDS) == 0
    assert contents(home) == expected
    assert poll_until(lambda: completed(home, "tokenize shard") == SHARDS, 20)
    assert completed(home, "count words") == 2  # The words are counted in two ranges of 16 MiB.


@pytest.mark.slow
def test_after_a_kill_of_the_driver_the_missing_shards_are_made(
    address: str, text: Path, expected: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    with prepare(home, text, "ray", address) as process:
        wait_for_shards(home, 2)
        process.send_signal(signal.SIGKILL)
    assert poll_until(lambda: not busy_workers(), 60)  # Ray ends the worker processes together with the driver.
    before = done(home)
    assert 2 <= len(before) < SHARDS
    with prepare(home, text, "ray", address) as process:
        wait_for_shards(home, SHARDS - 1)
        now = done(home)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not {path for path in before if path in now and now[path] != before[path]}
    assert contents(home) == expected


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_scores(address: str, text: Path, toy_run: RunRecord, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    scores: list[pa.Table] = []
    for options in (["--processes", "1"], ["--engine", "ray", "--ray-address", address]):
        output = tmp_path / f"{len(scores)}.parquet"
        options += ["--model", str(toy_run.model_folder), "--input", str(text), "--output", str(output), "--no-text"]
        with rnnlm(home, "score", *options, "--force") as process:
            assert process.wait(PATIENCE_SECONDS) == 0
        scores.append(pq.read_table(output))
    here, there = scores
    assert here["tokens"] == there["tokens"]
    assert np.allclose(here["log_probability"], there["log_probability"], rtol=1e-5)
    assert poll_until(lambda: completed(home, "score shard") > SHARDS, 20)


@pytest.mark.slow
def test_a_ray_cluster_keeps_the_same_documents(address: str, text: Path, toy_run: RunRecord, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    kept: list[set[str]] = []
    for options in (["--processes", "1"], ["--engine", "ray", "--ray-address", address]):
        output = tmp_path / f"{len(kept)}"
        options += ["--model", str(toy_run.model_folder), "--input", str(text), "--output", str(output), "--force"]
        with rnnlm(home, "filter", *options, "--keep-share", "0.5") as process:
            assert process.wait(PATIENCE_SECONDS) == 0
        kept.append(set((output / text.name).read_text().splitlines()))
    here, there = kept
    everything = set(text.read_text().splitlines())
    assert 0.2 < len(here) / len(everything) < 0.8
    # Rounding may change the decision about a line whose score is almost equal to the threshold.
    assert len(here ^ there) <= 5
    assert poll_until(lambda: completed(home, "score shard") > SHARDS, 20)
