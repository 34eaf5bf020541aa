"""Tokenizing in parallel processes: the corpus in shards, each a few Parquet files, none made twice."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
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
    running_text,
    sentences,
    sums_between,
    token_rows,
    unsaid_by_line,
)
from rnnlm.sequences.sql_tables import token_type
from rnnlm.sequences.worker_pool import Submit, workers
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

SHARD_BYTES = 2 << 20  # of text: about half a million tokens
BYTES_WORTH_A_PROCESS = 16 << 20  # starting one takes a second or two


@dataclass(frozen=True)
class Shard:
    """One stretch of the corpus and the files its tokens go to."""

    folder: Path
    number: int
    stretch: Stretch

    @property
    def documents(self) -> Path:
        """The marker, too: written last, so where it lies the shard is done."""
        return self.folder / f"{self.number:06d}.documents.parquet"

    def rows(self, split: Split) -> Path:
        return self.folder / f"{self.number:06d}.{split}.parquet"


@dataclass(frozen=True)
class ShardMaker:
    """All that making a shard needs; it travels to other processes."""

    corpus: CorpusRecord
    config: SequencesConfig
    tokenizer_folder: Path

    def __call__(self, shard: Shard) -> int:
        """Tokenize the shard and write its files. Returns the number of predicted tokens."""
        face = loaded(self.tokenizer_folder)
        found = list(documents_in(self.corpus, shard.stretch))
        texts = [document.lines for document in found]
        lines = token_rows(face.encode_lines([line for document in texts for line in document]))
        facts = document_columns(found, texts, lines, face, self.config)
        split_of_line = np.repeat([SPLITS.index(document.split) for document in found], facts["line_count"])
        for index, split in enumerate(SPLITS):
            part = lines.take(np.flatnonzero(split_of_line == index))
            write_rows(shard.rows(split), cut(part, self.config), face)
        with atomic_file(shard.documents) as partial:
            pq.write_table(pa.table(facts), partial)
        return int(sum(facts["predicted_tokens"]))


def cut(lines: TokenRows, config: SequencesConfig) -> TokenRows:
    """Rows as they will be stored; of a stream, which goes on from shard to shard, the running text."""
    if config.mode == "sentence":
        return sentences(lines, config.context_length)
    text = running_text(lines)
    return TokenRows(text, np.array([0, len(text)], np.int64))


def document_columns(
    found: list[CorpusDocument], texts: list[list[str]], lines: TokenRows, face: TextTokenizer, config: SequencesConfig
) -> dict[str, list[Any]]:
    """Columns of the table `documents`: where each lies, its digest, and what its unknown words cost."""
    line_counts = [len(document) for document in texts]
    bounds = ends(np.array(line_counts, np.int64))
    predicted = sums_between(predicted_by_line(lines, config.mode), bounds)
    line_texts = [line for document in texts for line in document]
    unknown_tokens, restoration_bits = unsaid_by_line(face, line_texts, lines, config.mode)
    return {
        "split": [document.split for document in found],
        "source_file": [document.source_file for document in found],
        "source_number": [document.source_number for document in found],
        "byte_offset": [document.byte_offset for document in found],
        "byte_count": [len(document.data) for document in found],
        "line_count": line_counts,
        "sha256": [document.sha256 for document in found],
        "fingerprint": [text_fingerprint(document.data) for document in found],
        "split_key": [document.split_key for document in found],
        "predicted_tokens": predicted.tolist(),
        "unknown_tokens": sums_between(unknown_tokens, bounds).tolist(),
        "restoration_bits": sums_between(restoration_bits, bounds).tolist(),
    }


def write_rows(path: Path, rows: TokenRows, face: TextTokenizer) -> None:
    with atomic_file(path) as partial:
        pq.write_table(pa.table({"token_ids": arrow_rows(rows, face.vocabulary_size)}), partial, compression="lz4")


def arrow_rows(rows: TokenRows, vocabulary_size: int) -> pa.Array:
    """Rows as an Arrow list array of the narrowest type that holds every id."""
    offset_type = np.int32 if rows.offsets[-1] < 1 << 31 else np.int64
    lists = pa.ListArray if offset_type is np.int32 else pa.LargeListArray
    return lists.from_arrays(
        pa.array(rows.offsets.astype(offset_type)),
        pa.array(rows.token_ids.astype(token_type(vocabulary_size).to_pandas_dtype())),
    )


def tokenize_shards(folder: Path, corpus: CorpusRecord, config: SequencesConfig, tokenizer_folder: Path) -> list[Shard]:
    """All shards of the corpus, in its order, tokenized. Those whose files are there are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    make = ShardMaker(corpus, config, tokenizer_folder)
    shards: list[Shard] = []
    tokens = 0
    with (
        executor(corpus.corpus_bytes, config.processes) as submit,
        Progress("sequences", corpus.corpus_bytes, BYTES) as progress,
    ):
        waiting: list[tuple[Shard, Future[int]]] = []

        def finish_oldest() -> None:
            nonlocal tokens
            shard, future = waiting.pop(0)
            tokens += future.result()
            progress.facts(f"{tokens:,} tokens")
            progress.update(shard.stretch.byte_count)

        for number, stretch in enumerate(stretches(corpus, SHARD_BYTES)):
            shards.append(Shard(folder, number, stretch))
            if not shards[-1].documents.exists():
                waiting.append((shards[-1], submit(make, shards[-1])))
            else:
                progress.update(stretch.byte_count)
            while len(waiting) > 2 * (os.cpu_count() or 1):  # enough to keep every process busy
                finish_oldest()
        while waiting:
            finish_oldest()
    return shards


@contextmanager
def executor(corpus_bytes: int, processes: int | None) -> Iterator[Submit]:
    """A way to have shards made: in other processes, or in this one where those would not pay."""
    count = min(processes or os.cpu_count() or 1, -(-corpus_bytes // BYTES_WORTH_A_PROCESS))
    if count > 1:
        with workers(count) as submit:
            yield submit
    else:

        def at_once(make: ShardMaker, shard: Shard) -> Future[int]:
            future: Future[int] = Future()
            future.set_result(make(shard))
            return future

        yield at_once


_LOADED: dict[Path, TextTokenizer] = {}


def loaded(folder: Path) -> TextTokenizer:
    """The tokenizer, read once a process."""
    if folder not in _LOADED:
        _LOADED.clear()
        _LOADED[folder] = load_tokenizer(folder)
    return _LOADED[folder]
