"""Measure how the time, disk space and peak memory of each stage of `rnnlm run` grow with the corpus.

python benchmarks/scale.py FOLDER [--gigabytes 0.1 1 10] [--engines 1 2 ray]

FOLDER gets the generated texts, and an rnnlm home that is removed before each run. It needs about four times the size
of the text. Existing texts are used again. An engine is a number of local processes, or `ray` (which needs the `ray`
extra), a cluster of two nodes with one core each on this machine. Each run is the whole command in a new home, followed
by the same command again (`again`), which finds all results. Memory is the peak over all processes, including the
servers of Prefect and Ray. Training and evaluation do not grow with the corpus, because training reads a fixed number
of tokens, and the held-out splits have 1 MB each. Every dataset is stored as Parquet parts. By default, only large
texts are.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from prepare import row, table
from process_memory import PeakMemory

CHECKOUT = Path(__file__).resolve().parent.parent
HELD_OUT_BYTES, TRAINED_TOKENS = 1_000_000, 50_000
# The number of words, the number of likely successors of each word, and the probability that one of these follows.
WORDS, SUCCESSORS, FOLLOWED = 100_000, 16, 0.6
# The number of sentences that are drawn together, and the length of the longest sentence.
SENTENCES, LONGEST = 20_000, 40
STAGE_ENDED = re.compile(r"(\w+): (?:done|skipped.*) \(([\d.]+) s\)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--engines", nargs="+", default=["1", "2", "ray"])
    options = parser.parse_args()
    table(["text, GB", "engine", "stage", "seconds", "MB of text/s", "new on disk, MB", "peak, MiB"])
    for gigabytes in options.gigabytes:
        text = options.folder / f"{gigabytes:g}-gb.txt"
        write_text(text, int(gigabytes * 1e9))
        for engine in options.engines:
            home = options.folder / f"{gigabytes:g}-gb-home"
            shutil.rmtree(home, ignore_errors=True)
            with two_nodes() if engine == "ray" else contextlib.nullcontext():
                run_pipeline(text, engine, home)


@contextlib.contextmanager
def two_nodes() -> Iterator[None]:
    """Start a Ray cluster of two nodes with one core each, on this machine."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        yield
    finally:
        cluster.shutdown()


def run_pipeline(text: Path, engine: str, home: Path) -> None:
    """Run the pipeline in `home` twice. Print a row for each stage of the first run, and one row for the second run."""
    gigabytes = text.stat().st_size / 1e9

    def print_row(stage: str, seconds: float, new_bytes: int, peak: float) -> None:
        speed = f"{gigabytes * 1e3 / seconds:.1f}"
        row(f"{gigabytes:.2g}", engine, stage, f"{seconds:.1f}", speed, f"{max(0, new_bytes) / 1e6:.0f}", f"{peak:.0f}")

    command = [sys.executable, "-m", "flows.command_line", "run", "--corpus", str(text), "--preset", "smoke"]
    command += [part for setting in settings(text, engine) for part in ("--set", setting)]
    environment = os.environ | {"RNNLM_HOME": str(home), "PYTHONPATH": str(CHECKOUT)}
    for name in ("whole run", "again"):
        start, before, highest = time.perf_counter(), bytes_below(home), 0.0
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        with PeakMemory(os.getpid(), every_seconds=0.5) as memory:
            size, lines = before, []
            for line in process.stderr:
                lines.append(line)
                if ended := STAGE_ENDED.match(line.strip()):
                    stage, seconds = ended.groups()
                    peak, grown = memory.take(), bytes_below(home)
                    highest = max(highest, peak)
                    if name == "whole run":
                        print_row(stage, max(0.1, float(seconds)), grown - size, peak)
                    size = grown
            if process.wait():
                sys.exit(f"{' '.join(command)} failed:\n{''.join(lines)}")
        print_row(name, time.perf_counter() - start, bytes_below(home) - before, max(highest, memory.take()))


def settings(text: Path, engine: str) -> list[str]:
    held_out = min(0.05, HELD_OUT_BYTES / text.stat().st_size)
    where = "sequences.engine=ray" if engine == "ray" else f"sequences.processes={engine}"
    return [
        f"corpus.valid_share={held_out}",
        f"corpus.test_share={held_out}",
        "tokenizer.kind=word",
        "sequences.parts_above_bytes=0",
        f"training.maximum_tokens={TRAINED_TOKENS}",
        "training.precision=float32",
        where,
    ]


def bytes_below(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # A temporary file may disappear before its size is read.
            found += path.stat().st_size if path.is_file() else 0
    return found


def write_text(path: Path, size: int) -> None:
    """Write a text of about `size` bytes. The same size always gives the same text."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    written = 0
    with partial.open("wb") as stream:
        for block in blocks():
            written += stream.write(block)
            if written >= size:
                break
    partial.replace(path)


def blocks() -> Iterator[bytes]:
    """Yield parts of an endless text. Its words follow Zipf's law and a Markov chain that a model can learn.

    With the probability FOLLOWED, the next word is one of the word's SUCCESSORS. Otherwise it is any word, drawn by
    frequency.
    """
    draw = np.random.default_rng(0)
    words = np.array([spelling(rank) for rank in range(WORDS)], dtype=object)
    cumulative = np.cumsum(1.0 / np.arange(1, WORDS + 1))
    cumulative /= cumulative[-1]

    def by_frequency(*shape: int) -> np.ndarray:
        return np.searchsorted(cumulative, draw.random(shape)).astype(np.int32)

    successors = by_frequency(WORDS, SUCCESSORS)
    while True:
        text = by_frequency(LONGEST, SENTENCES)  # Each column of this array is a sentence.
        follows = draw.random(text.shape) < FOLLOWED
        chosen = draw.integers(0, SUCCESSORS, text.shape)
        for place in range(1, LONGEST):
            following = successors[text[place - 1], chosen[place]]
            text[place] = np.where(follows[place], following, text[place])
        lengths = draw.integers(4, 41, SENTENCES)
        ends_paragraph = draw.random(SENTENCES) < 0.2
        lines = [
            " ".join(words[text[:length, number]]) + (" .\n\n" if last else " .\n")
            for number, (length, last) in enumerate(zip(lengths.tolist(), ends_paragraph.tolist(), strict=True))
        ]
        yield "".join(lines).encode()


def spelling(rank: int) -> str:
    """Return a unique word for a rank. Frequent words are short."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    letters, rest = [], rank
    while True:
        rest, syllable = divmod(rest, len(consonants) * len(vowels))
        letters.append(consonants[syllable // len(vowels)] + vowels[syllable % len(vowels)])
        if rest == 0:
            return "".join(letters)
        rest -= 1


if __name__ == "__main__":
    main()
