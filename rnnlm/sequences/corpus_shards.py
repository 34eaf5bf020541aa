"""Tokenize a corpus in parallel: in shards, each a few Parquet files that are written once."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import SequencesConfig
from rnnlm.corpora.splits import CorpusDocument, Stretch, documents_in, stretches, text_fingerprint
from rnnlm.home import atomic_file
from rnnlm.progress import BYTES, Progress
from rnnlm.records import SPLITS, CorpusRecord, Split
from rnnlm.sequences.segmentation import (
    TokenRows,
    ends,
    predicted_by_line,
    rows_from_lists,
    running_text,
    sentences,
    sums_between,
    unsaid_by_line,
)
from rnnlm.sequences.sql_tables import token_type
from rnnlm.sequences.truncation import beginnings, first_rows
from rnnlm.sequences.worker_pool import Submit, workers
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

SHARD_BYTES = 2 << 20  # of text: about half a million tokens
BYTES_WORTH_A_PROCESS = 16 << 20  # starting a process takes a second or two


@dataclass(frozen=True)
class Shard:
    """One stretch of the corpus and the files of its tokens."""

    folder: Path
    number: int
    stretch: Stretch

    @property
    def documents(self) -> Path:
        """Written last: if it exists, the shard is complete."""
        return self.folder / f"{self.number:06d}.documents.parquet"

    def rows(self, split: Split) -> Path:
        return self.folder / f"{self.number:06d}.{split}.parquet"


@dataclass(frozen=True)
class ShardMaker:
    """Tokenizes shards; picklable."""

    corpus: CorpusRecord
    config: SequencesConfig
    tokenizer_folder: Path

    def __call__(self, shard: Shard) -> int:
        """Write the shard's files. Returns its number of predicted tokens."""
        tokenizer = cached_tokenizer(self.tokenizer_folder)
        documents = list(documents_in(self.corpus, shard.stretch))
        texts = [document.lines for document in documents]
        lines = rows_from_lists(tokenizer.encode_lines([line for text in texts for line in text]))
        columns = document_columns(documents, texts, lines, tokenizer, self.config)
        split_of_line = np.repeat([SPLITS.index(document.split) for document in documents], columns["line_count"])
        for index, split in enumerate(SPLITS):
            rows = cut(lines.take(np.flatnonzero(split_of_line == index)), self.config)
            table = pa.table({"token_ids": arrow_rows(rows, tokenizer.vocabulary_size)})
            with atomic_file(shard.rows(split)) as partial:
                pq.write_table(table, partial, compression="lz4")
        with atomic_file(shard.documents) as partial:
            pq.write_table(pa.table(columns), partial)
        return int(sum(columns["predicted_tokens"]))


def cut(lines: TokenRows, config: SequencesConfig) -> TokenRows:
    """Rows as they are stored; in stream mode the running text, which continues in the next shard."""
    if config.long_lines == "truncate":
        return first_rows(lines, config.context_length)
    if config.mode == "sentence":
        return sentences(lines, config.context_length)
    text = running_text(lines)
    return TokenRows(text, np.array([0, len(text)], np.int64))


def document_columns(
    documents: list[CorpusDocument],
    texts: list[list[str]],
    lines: TokenRows,
    tokenizer: TextTokenizer,
    config: SequencesConfig,
) -> dict[str, list[Any]]:
    """Columns of the table `documents` but document_id."""
    line_counts = [len(text) for text in texts]
    bounds = ends(np.array(line_counts, np.int64))
    line_texts = [line for text in texts for line in text]
    predicted, rest_bits = predicted_by_line(lines, config.mode), np.zeros(len(lines))
    if config.long_lines == "truncate":
        predicted = np.minimum(predicted, config.context_length)
        kept = beginnings(tokenizer, line_texts, lines, config.context_length)
        line_texts, lines, rest_bits = kept.texts, kept.lines, kept.rest_bits
    unknown_tokens, restoration_bits = unsaid_by_line(tokenizer, line_texts, lines, config.mode)
    return {
        "split": [document.split for document in documents],
        "source_file": [document.source_file for document in documents],
        "source_number": [document.source_number for document in documents],
        "byte_offset": [document.byte_offset for document in documents],
        "byte_count": [len(document.data) for document in documents],
        "line_count": line_counts,
        "sha256": [document.sha256 for document in documents],
        "fingerprint": [text_fingerprint(document.data) for document in documents],
        "split_key": [document.split_key for document in documents],
        "predicted_tokens": sums_between(predicted, bounds).tolist(),
        "unknown_tokens": sums_between(unknown_tokens, bounds).tolist(),
        "restoration_bits": sums_between(restoration_bits + rest_bits, bounds).tolist(),
    }


def arrow_rows(rows: TokenRows, vocabulary_size: int) -> pa.Array:
    """Rows as an Arrow list array of the narrowest type that holds every token id."""
    offset_type = np.int32 if rows.offsets[-1] < 1 << 31 else np.int64
    lists = pa.ListArray if offset_type is np.int32 else pa.LargeListArray
    return lists.from_arrays(
        pa.array(rows.offsets.astype(offset_type)),
        pa.array(rows.token_ids.astype(token_type(vocabulary_size).to_pandas_dtype())),
    )


def tokenize_shards(folder: Path, corpus: CorpusRecord, config: SequencesConfig, tokenizer_folder: Path) -> list[Shard]:
    """All shards of the corpus in order, tokenized. Complete shards are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    make = ShardMaker(corpus, config, tokenizer_folder)
    shards: list[Shard] = []
    waiting: list[tuple[Shard, Future[int]]] = []
    tokens = 0
    with (
        executor(corpus.corpus_bytes, config.processes) as submit,
        Progress("sequences", corpus.corpus_bytes, BYTES) as progress,
    ):

        def finish_oldest() -> None:
            nonlocal tokens
            shard, future = waiting.pop(0)
            tokens += future.result()
            progress.facts(f"{tokens:,} tokens")
            progress.update(shard.stretch.byte_count)

        for number, stretch in enumerate(stretches(corpus, SHARD_BYTES)):
            shard = Shard(folder, number, stretch)
            shards.append(shard)
            if shard.documents.exists():
                progress.update(stretch.byte_count)
            else:
                waiting.append((shard, submit(make, shard)))
            if len(waiting) > 2 * (os.cpu_count() or 1):  # enough to keep every process busy
                finish_oldest()
        while waiting:
            finish_oldest()
    return shards


@contextmanager
def executor(corpus_bytes: int, processes: int | None) -> Iterator[Submit]:
    """Yield submit(function, *arguments) → Future: in other processes, or in this one if the corpus is small."""
    count = min(processes or os.cpu_count() or 1, -(-corpus_bytes // BYTES_WORTH_A_PROCESS))
    if count > 1:
        advice = "run again (finished shards are kept), with a smaller sequences.processes if it happens again"
        with workers(count, "tokenizing", advice) as submit:
            yield submit
    else:

        def run_here(make: ShardMaker, shard: Shard) -> Future[int]:
            future: Future[int] = Future()
            future.set_result(make(shard))
            return future

        yield run_here


@lru_cache(maxsize=1)
def cached_tokenizer(folder: Path) -> TextTokenizer:
    return load_tokenizer(folder)
