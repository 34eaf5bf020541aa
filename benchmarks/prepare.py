"""Measure speed, memory and disk space of the stages before training, partly in comparison with `datasets.map`.

python benchmarks/prepare.py TEXT [--sizes 5 50 200] [--tokenizers word bpe …] [--only speed memory …]

TEXT is a plain text file. Larger corpora are concatenated copies of TEXT. Sizes are in millions of tokens. Further
measurements are about reading, padding and Parquet parts.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

from process_memory import measured

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.runtime.engines import Engine
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.sequences.segmentation import TokenRows, ends
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

PARTS_ACTIONS = ("store", "check", "read in order", "read to train")
ALL_TRAINING = {"valid_share": 0.0, "test_share": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("--sizes", type=float, nargs="+", default=[5, 50, 200])
    parser.add_argument("--tokenizers", nargs="+", default=["word", "char", "bpe", "unigram"])
    parser.add_argument("--only", nargs="+", default=["speed", "reader", "padding", "memory", "parts"])
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    # The script passes this option, with the rnnlm home and the action, to the processes that it starts.
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        home, action = Home(Path(options.worker[0])), options.worker[1]
        (parts_worker if action in PARTS_ACTIONS else worker)(home, action, options.text)
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as scratch:
        for part in options.only:
            benchmark = {"speed": speed, "reader": reader, "padding": padding, "memory": memory, "parts": parts}[part]
            benchmark(options, Path(scratch))


def in_fresh_process(text: Path, home: Home, action: str) -> tuple[float, float, str]:
    """Run an action in a new process. Return its peak memory in MiB, its duration in seconds, and its output."""
    return measured([sys.executable, str(Path(__file__).resolve()), str(text), "--worker", str(home.root), action])


def table(heads: list[str]) -> None:
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def copies(text: Path, target: Path, count: int) -> Path:
    with target.open("wb") as out:
        for _ in range(count):
            with text.open("rb") as source:
                shutil.copyfileobj(source, out)
    return target


def corpus_of(home: Home, text: Path) -> tuple[CorpusRecord, CorpusConfig]:
    config = CorpusConfig(source=str(text), **ALL_TRAINING)
    return obtain_corpus(home, config), config


@contextmanager
def in_processes(count: int, worth: int) -> Iterator[Engine]:
    with ProcessPoolExecutor(min(count, worth), multiprocessing.get_context("spawn")) as pool:
        yield Engine(pool.submit, count)


def prepared(
    home: Home, text: Path, kind: str, processes: int = os.cpu_count() or 1, **settings: object
) -> tuple[DatasetRecord, float]:
    """Tokenize a text and store its rows. Return the dataset and the seconds that this takes."""
    corpus, config = corpus_of(home, text)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind=kind))
    start = time.perf_counter()
    cut = SequencesConfig.model_validate(settings)
    engine = partial(in_processes, processes)
    dataset = store_sequences(home, corpus, tokenizer, cut, required_splits=("train",), force=True, open_engine=engine)
    return dataset, time.perf_counter() - start


# Only functions that need torch import it, because the processes that tokenize also import this file.

# --- speed -----------------------------------------------------------------------------------------------------


def speed(options: argparse.Namespace, scratch: Path) -> None:
    """Measure how fast rnnlm's shards and `datasets.map` turn a text into a DuckDB file of rows.

    Both use the same tokenizer, and alternate. The table has medians over the rounds.
    """
    table(["tokenizer", "tokens", "ours, tokens/s", f"datasets.map(num_proc={options.processes})", "ratio"])
    text = copies(options.text, scratch / "speed.txt", max(1, round(60e6 / options.text.stat().st_size)))
    for kind in options.tokenizers:
        home = Home(scratch / "speed-home")
        corpus, config = corpus_of(home, text)
        tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind=kind))
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(options.rounds):
            dataset, seconds = prepared(home, text, kind, processes=options.processes)
            times["ours"].append(seconds)
            times["theirs"].append(with_datasets_map(corpus, tokenizer, options.processes, scratch))
        tokens = dataset.predicted_tokens["train"]
        ours, theirs = (tokens / float(np.median(times[name])) for name in ("ours", "theirs"))
        name = kind if len(kind) < 30 else "…" + kind[-25:]
        row(name, f"{tokens:,}", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}")
        shutil.rmtree(home.root)


def with_datasets_map(corpus: CorpusRecord, tokenizer: TokenizerRecord, processes: int, scratch: Path) -> float:
    """Return how many seconds `datasets.map` takes to create rnnlm's rows, and Arrow to insert them into DuckDB."""
    import duckdb
    from datasets import load_dataset
    from transformers import AutoTokenizer

    cache = scratch / "datasets-cache"
    start = time.perf_counter()
    fast = AutoTokenizer.from_pretrained(tokenizer.folder)
    bos, eos = fast.bos_token_id, fast.eos_token_id

    def tokenize(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        found = fast(rows["text"], add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return {"token_ids": [[bos, *ids, eos] for ids in found if ids]}

    files = {"train": str(corpus.folder / "text.txt")}
    lines = load_dataset("text", data_files=files, split="train", cache_dir=str(cache))
    mapped = lines.map(tokenize, batched=True, num_proc=processes, remove_columns=["text"], load_from_cache_file=False)
    target = scratch / "theirs.duckdb"
    with duckdb.connect(str(target)) as connection:
        connection.execute("create table sequences (token_ids usmallint[])")
        for batch in mapped.with_format("arrow").iter(batch_size=100_000):
            connection.register("incoming", batch)
            connection.execute("insert into sequences select token_ids from incoming")
    seconds = time.perf_counter() - start
    target.unlink()
    shutil.rmtree(cache)
    return seconds


# --- reading ---------------------------------------------------------------------------------------------------


def reader(options: argparse.Namespace, scratch: Path) -> None:
    """Print the speed of shuffled batches on one core, the randomness of their order, and the bytes per token."""
    import torch

    from rnnlm.sequences.data_feed import TrainingBatches

    torch.set_num_threads(1)
    os.sched_setaffinity(0, {0})
    table(["mode", "tokens", "batch", "tokens/s on one core", "rank correlation, 20 epochs", "padding", "bytes/token"])
    size = options.sizes[0] if len(options.sizes) == 1 else 20
    text = copies(options.text, scratch / "reader.txt", max(1, round(size * 5.4e6 / options.text.stat().st_size)))
    for mode in ("sentence", "stream"):
        home = Home(scratch / f"reader-{mode}")
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))
        dataset, _ = prepared(home, text, "word", mode=mode)
        os.sched_setaffinity(0, {0})
        source = StoredSplit(dataset, "train")
        for batch_size in (32, 128):
            start, seen, cells = time.perf_counter(), 0, 0
            for batch in TrainingBatches(source, mode, batch_size, 35, seed=0):
                seen += batch.predicted_tokens
                cells += batch.target_ids.numel()
            rate = seen / (time.perf_counter() - start)
            rank = rank_correlations(len(source), batch_size) if mode == "sentence" else "in order"
            source.close()
            per_token = bytes_a_token(dataset)
            row(mode, f"{seen:,}", batch_size, f"{rate:,.0f}", rank, f"{1 - seen / cells:.2%}", f"{per_token:.2f}")
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))


def rank_correlations(rows: int, batch_size: int, epochs: int = 20) -> str:
    """Return Spearman's correlation between the rows' positions in the file and in each of several epochs.

    A correlation of 0 means a random order. Windows draw their chunks at random, so the correlation varies around 0
    with a deviation of 1 / sqrt(chunks). For a full shuffle, the deviation would be 1 / sqrt(rows).
    """
    from rnnlm.sequences.batches import shuffled_batches

    found = []
    for epoch in range(epochs):
        batches = shuffled_batches(Numbered(rows), batch_size, 0, epoch)
        order = np.concatenate([batch.target_ids[:, 0].numpy() for batch in batches])
        found.append(np.corrcoef(order, np.arange(rows))[0, 1])
    return f"{np.mean(found):+.3f} ± {np.std(found):.3f}"


class Numbered:
    """A substitute for a dataset. Every token of a row is the row's number."""

    def __init__(self, rows: int) -> None:
        self.predicted_count = rows

    def __len__(self) -> int:
        return self.predicted_count

    def read(self, first: int, last: int) -> TokenRows:
        numbers = np.repeat(np.arange(first, last), 2)
        return TokenRows(numbers.astype(np.int32), ends(np.full(last - first, 2)))


def bytes_a_token(dataset: DatasetRecord) -> float:
    """Return how many bytes of database blocks the table shifted_sequences occupies per stored token."""
    import duckdb

    with duckdb.connect(str(dataset.database), read_only=True) as connection:
        blocks = connection.execute(
            "select count(distinct block_id) from pragma_storage_info('shifted_sequences') where block_id >= 0"
        ).fetchone()[0]
        extra = connection.execute(
            "select count(distinct block) from (select unnest(additional_block_ids) as block "
            "from pragma_storage_info('shifted_sequences'))"
        ).fetchone()[0]
        tokens = connection.execute("select sum(len(token_ids)) from shifted_sequences").fetchone()[0]
        size = connection.execute("select block_size from pragma_database_size()").fetchone()[0]
    return float((blocks + extra) * size / tokens)


def padding(options: argparse.Namespace, scratch: Path) -> None:
    """Print the fraction of padding tokens in batches of the text's rows."""
    from rnnlm.sequences.data_feed import TrainingBatches

    table(["text", "batch", "padding"])
    home = Home(scratch / "padding")
    dataset, _ = prepared(home, options.text, "word")
    source = StoredSplit(dataset, "train")
    for batch_size in (16, 32, 64, 128):
        batches = list(TrainingBatches(source, "sentence", batch_size, 35, seed=0))
        cells = sum(batch.target_ids.numel() for batch in batches)
        row(options.text.name, batch_size, f"{1 - sum(batch.predicted_tokens for batch in batches) / cells:.2%}")
    source.close()


# --- memory ----------------------------------------------------------------------------------------------------


def memory(options: argparse.Namespace, scratch: Path) -> None:
    """Print the peak memory of each stage as the proportional set size of all its processes.

    Each stage runs in new processes.
    """
    heads = ["million tokens", "vocabulary, MiB", "prepare, MiB", "read sentences, MiB", "read stream, MiB"]
    table([*heads, "prepare, tokens/s"])
    for size in options.sizes:
        text = copies(options.text, scratch / "memory.txt", max(1, round(size * 5.4e6 / options.text.stat().st_size)))
        home = Home(scratch / "memory-home")
        corpus_of(home, text)
        peaks, seconds = {}, {}
        for action in ("tokenizer", "prepare", "read", "prepare-stream", "read-stream"):
            peaks[action], seconds[action], output = in_fresh_process(text, home, action)
        row(
            f"{int(output) / 1e6:.0f}",
            *(f"{peaks[action]:.0f}" for action in ("tokenizer", "prepare", "read", "read-stream")),
            f"{int(output) / seconds['prepare']:,.0f}",
        )
        shutil.rmtree(home.root)


def worker(home: Home, action: str, text: Path) -> None:
    """Run `action` in this process, and print the number of tokens."""
    corpus, config = corpus_of(home, text)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    if action == "tokenizer":
        print(load_tokenizer(tokenizer.folder).vocabulary_size)
        return
    mode = "stream" if action.endswith("-stream") else "sentence"
    cut = SequencesConfig(mode=mode)
    dataset = store_sequences(home, corpus, tokenizer, cut, required_splits=("train",))
    if action.startswith("read"):
        from rnnlm.sequences.data_feed import TrainingBatches

        for _ in TrainingBatches(StoredSplit(dataset, "train"), mode, 32, 35, seed=0):
            pass
    print(dataset.predicted_tokens["train"])


# --- one file compared with parts --------------------------------------------------------------------------


def parts(options: argparse.Namespace, scratch: Path) -> None:
    """Print tokens per second and peak memory of one dataset, stored as a DuckDB file and as Parquet parts.

    Each measurement runs in a new process.
    """
    table(["mode", "stored as", "million tokens", *(f"{action}, tokens/s (MiB)" for action in PARTS_ACTIONS), "bytes"])
    for size in options.sizes:
        text = copies(options.text, scratch / "parts.txt", max(1, round(size * 5.4e6 / options.text.stat().st_size)))
        for mode in ("sentence", "stream"):
            for form in ("file", "parts"):
                home = Home(scratch / f"{mode}-{form}")
                corpus, _ = corpus_of(home, text)
                train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
                cells = []
                for action in PARTS_ACTIONS:
                    peak, _, output = in_fresh_process(text, home, action)
                    tokens, seconds = map(float, output.split())
                    cells.append(f"{tokens / seconds:,.0f} ({peak:.0f})")
                stored = [*home.datasets.glob("*/sequences.duckdb"), *home.datasets.glob("*/parts/*")]
                row(mode, form, f"{tokens / 1e6:.0f}", *cells, f"{sum(path.stat().st_size for path in stored):,}")
                shutil.rmtree(home.root)


def parts_worker(home: Home, action: str, text: Path) -> None:
    """Run one action, and print the number of tokens and the seconds.

    The name of the rnnlm home contains the mode and the storage format.
    """
    if action.startswith("read"):
        from rnnlm.sequences.batches import chunks
        from rnnlm.sequences.data_feed import TrainingBatches

    mode, form = home.root.name.split("-")
    corpus, _ = corpus_of(home, text)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    cut = SequencesConfig(mode=mode, parts_above_bytes=0 if form == "parts" else 1 << 40)
    start = time.perf_counter()
    dataset = store_sequences(home, corpus, tokenizer, cut, required_splits=("train",))
    source = StoredSplit(dataset, "train")
    if action != "store":
        start = time.perf_counter()
    if action == "check":
        check_dataset(dataset)
    elif action == "read in order":
        for _ in chunks(source):
            pass
    elif action == "read to train":
        for _ in TrainingBatches(source, mode, 32, 35, seed=0):
            pass
    print(dataset.predicted_tokens["train"], time.perf_counter() - start)


if __name__ == "__main__":
    main()
