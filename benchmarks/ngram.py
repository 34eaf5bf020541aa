"""Measure how the n-gram model's time grows with the text, for the table in docs/explanation/ngram.md.

nice python benchmarks/ngram.py [TOKENS …] [--memory-limit 2GB] [--order 5] [--folder /tmp]

The text is synthetic. Its words follow Zipf's law, half of them depend on the previous word, and sentences have 25
predicted tokens.
"""

import argparse
import resource
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import duckdb  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from rnnlm.evaluation.ngram.kneser_ney import count_ngrams  # noqa: E402
from rnnlm.evaluation.ngram.ngram_config import NgramConfig  # noqa: E402
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, open_database, open_model  # noqa: E402
from rnnlm.sequences.sql_tables import insert, table  # noqa: E402
from rnnlm.storage.sql_statements import statement  # noqa: E402
from rnnlm.tokenizers.text_tokenizer import BOS, EOS  # noqa: E402

HEADS = (
    "train tokens",
    "5-grams",
    "training",
    "its CPU time",
    "scoring 75,000",
    "its CPU time",
    "model file",
    "spilled",
    "peak memory",
)
VOCABULARY, LENGTH, TEST_ROWS, ROWS_AT_ONCE = 50_000, 25, 3_000, 200_000


def write_text(path: Path, tokens: int) -> None:
    """Write a DuckDB file with the tables of a dataset that the n-gram model reads."""
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, VOCABULARY - 3)
    cumulated = np.cumsum(weights / weights.sum())
    with duckdb.connect(str(path), config={"memory_limit": "2GB"}) as connection:
        for name in ("split", "token_id", "shifted_sequences", "tokens"):
            connection.execute(statement(f"schema/{name}"))
        ids = np.arange(VOCABULARY)
        insert(
            connection,
            "queries/insert_tokens",
            pa.table({"token_id": pa.array(ids, pa.uint16()), "token": ids.astype(str)}),
        )
        for split, rows in (("train", tokens // LENGTH), ("test", TEST_ROWS)):
            for first in range(0, rows, ROWS_AT_ONCE):
                count = min(ROWS_AT_ONCE, rows - first)
                block = draw_rows(generator, cumulated, count)
                offsets = pa.array(np.arange(0, block.size + 1, LENGTH + 1), pa.int32())
                columns = {
                    "split": [split] * count,
                    "sequence_id": np.arange(first, first + count),
                    "token_ids": pa.ListArray.from_arrays(offsets, pa.array(block.reshape(-1))),
                }
                insert(connection, "queries/insert_sequences", pa.table(columns))


def draw_rows(generator: np.random.Generator, cumulated: np.ndarray, count: int) -> np.ndarray:
    """Draw rows of <bos>, words and <eos>, as a uint16 array of shape (count, LENGTH + 1).

    On average, every second word depends on the previous word.
    """
    block = np.full((count, LENGTH + 1), EOS, np.uint16)
    block[:, 0] = BOS
    before = np.full(count, BOS, np.int64)
    for position in range(1, LENGTH):
        free = np.minimum(np.searchsorted(cumulated, generator.random(count)), VOCABULARY - 5)
        # The index of the chosen successor. Each word has eight possible successors.
        choice = np.minimum(generator.geometric(0.5, count), 8)
        led = (before * 7_919 + choice * 104_729) % (VOCABULARY - 4) % (before % 97 * 50 + 20)
        before = np.where(generator.random(count) < 0.55, led, free) + 4
        block[:, position] = before
    return block


class Watch(threading.Thread):
    """A thread that measures the size of DuckDB's spill folder twice a second and records the largest size."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.most, self.over = folder, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            self.most = max(self.most, sum(size_of(path) for path in self.folder.rglob("*")))


def size_of(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except FileNotFoundError:  # DuckDB may remove a file after it was listed.
        return 0


def measure_size(tokens: int, folder: Path, config: NgramConfig) -> list[str]:
    """Return the table's row for a synthetic text of `tokens` tokens."""
    text, model = folder / "text.duckdb", NgramRecord(folder=folder, config=config)
    write_text(text, tokens)
    watch = Watch(Path(f"{model.database}.tmp"))  # DuckDB writes data to this folder when it exceeds its memory limit.
    watch.start()
    start, start_cpu = time.perf_counter(), time.process_time()
    with open_database(model.database, config, text) as connection:
        count_ngrams(connection, VOCABULARY, config.order)
    trained, trained_cpu = time.perf_counter(), time.process_time()
    watch.over.set()
    with open_model(model, text) as connection:
        table(connection, "ngram/measure_score", {"split": "test"})
        row = connection.execute("select count(*) from ngrams where ngram_order = ?", [config.order]).fetchone()
        assert row is not None
    scored, scored_cpu = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [
        f"{tokens:,}",
        f"{row[0]:,}",
        f"{trained - start:.1f} s",
        f"{trained_cpu - start_cpu:.1f} s",
        f"{scored - trained:.1f} s",
        f"{scored_cpu - trained_cpu:.1f} s",
        f"{model.database.stat().st_size / 1e9:.2f} GB",
        f"{watch.most / 1e9:.1f} GB",
        f"{peak / 1e9:.1f} GB",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", nargs="*", type=float, default=[1e6, 1e7, 3e7])
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--folder", help="where files of a few GB may lie for a while; default: the system's")
    options = parser.parse_args()
    config = NgramConfig(order=options.order, memory_limit=options.memory_limit)
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
    for tokens in options.tokens:
        folder = Path(tempfile.mkdtemp(dir=options.folder, prefix="ngram-"))
        try:
            print("| " + " | ".join(measure_size(int(tokens), folder, config)) + " |", flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
