"""Parallel tokenization of a corpus in shards. Each shard is stored once, in a few Parquet files."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import SequencesConfig
from rnnlm.corpora.line_digests import line_digests
from rnnlm.corpora.splits import ByteRange, CorpusDocument, byte_ranges, documents_in, text_fingerprint
from rnnlm.display.progress import BYTES, Progress
from rnnlm.runtime.engines import OpenEngine, in_this_process, results_in_order
from rnnlm.sequences.segmentation import (
    TokenRows,
    encoded_lines,
    ends,
    predicted_by_line,
    running_text,
    sentences,
    sums_between,
    tokenization_loss,
)
from rnnlm.sequences.sql_tables import token_type
from rnnlm.sequences.truncation import beginnings, first_rows
from rnnlm.storage.home import atomic_file
from rnnlm.storage.records import SPLITS, CorpusRecord, Split
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

# The number of bytes of text that are tokenized at once (about half a million tokens), which is also the size of the
# smallest shard.
SHARD_BYTES = 2 << 20
SMALL_SHARDS = 128
SHARDS_A_FOLDER = 1000
# The number of bytes of text per process. A process needs 5 to 10 s to start, and tokenizes about 3 MB per second.
TOKENIZED_BYTES_A_PROCESS = 32 << 20
DOCUMENT_SCHEMA = pa.schema(  # The columns of the `documents` table, except document_id.
    {
        "split": pa.string(),
        "source_file": pa.string(),
        "source_number": pa.int64(),
        "byte_offset": pa.int64(),
        "byte_count": pa.int64(),
        "line_count": pa.int64(),
        "sha256": pa.string(),
        "fingerprint": pa.string(),
        "split_key": pa.string(),
        "predicted_tokens": pa.int64(),
        "unknown_tokens": pa.int64(),
        "restoration_bits": pa.float64(),
    }
)
VALIDATION = SPLITS.index("valid")
VALIDATION_LINE_SCHEMA = pa.schema({"digest": pa.uint64(), "predicted_tokens": pa.int64()})
TRAINING_LINE_SCHEMA = pa.schema({"digest": pa.uint64()})
# The number of bytes of training text above which only a sample of its lines is listed. The sample has about this size.
SKETCHED_BYTES = 64 << 20


@dataclass(frozen=True)
class Shard:
    """A byte range of the corpus, and the files with its tokens."""

    folder: Path
    number: int
    byte_range: ByteRange

    @property
    def documents(self) -> Path:
        """The path of the file that is written last, so that its existence shows that the shard is complete."""
        return self.folder / f"{self.name}.documents.parquet"

    def rows(self, split: Split) -> Path:
        return self.folder / f"{self.name}.{split}.parquet"

    @property
    def validation_lines(self) -> Path:
        return self.folder / f"{self.name}.validation-lines.parquet"

    @property
    def training_lines(self) -> Path:
        return self.folder / f"{self.name}.training-lines.parquet"

    @property
    def name(self) -> str:
        """A name that contains the byte range.

        Hence the files of an interrupted run with another shard size are not reused.
        """
        byte_range = self.byte_range
        return f"{self.number:06d}-{Path(byte_range.source_file).stem}-{byte_range.byte_offset}-{byte_range.byte_count}"


@dataclass(frozen=True)
class ShardMaker:
    """A function that tokenizes shards. It can be pickled."""

    corpus: CorpusRecord
    config: SequencesConfig
    tokenizer_folder: Path

    def __call__(self, shard: Shard) -> int:
        """Write the files of a shard, SHARD_BYTES of text at a time. Return its number of predicted tokens."""
        tokenizer = cached_tokenizer(self.tokenizer_folder)
        row_schema = pa.schema({"token_ids": pa.list_(token_type(tokenizer.vocabulary_size))})
        highest = highest_line_digest(self.corpus.corpus_bytes)
        predicted_tokens = 0
        with ExitStack() as files:
            # This file is opened first, because the context that is entered first is closed last.
            documents_file = files.enter_context(parquet_file(shard.documents, DOCUMENT_SCHEMA))
            row_files = [files.enter_context(parquet_file(shard.rows(split), row_schema)) for split in SPLITS]
            validation_file = files.enter_context(parquet_file(shard.validation_lines, VALIDATION_LINE_SCHEMA))
            training_file = files.enter_context(parquet_file(shard.training_lines, TRAINING_LINE_SCHEMA))
            for documents in pieces(documents_in(self.corpus, shard.byte_range)):
                texts = [document.lines for document in documents]
                lines = encoded_lines(tokenizer, [line for text in texts for line in text])
                predicted = predicted_by_stored_line(lines, self.config)
                columns = document_columns(documents, texts, lines, predicted, tokenizer, self.config)
                split_of_line = np.repeat(
                    [SPLITS.index(document.split) for document in documents], columns["line_count"]
                )
                for index, file in enumerate(row_files):
                    rows = cut(lines.take(np.flatnonzero(split_of_line == index)), self.config)
                    file.write_table(pa.table([arrow_rows(rows, tokenizer.vocabulary_size)], schema=row_schema))
                validation_file.write_table(validation_lines(documents, predicted[split_of_line == VALIDATION]))
                training_file.write_table(training_lines(documents, highest))
                documents_file.write_table(pa.table(columns, schema=DOCUMENT_SCHEMA))
                predicted_tokens += sum(columns["predicted_tokens"])
        return predicted_tokens


@contextmanager
def parquet_file(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    with atomic_file(path) as partial, pq.ParquetWriter(partial, schema, compression="lz4") as writer:
        yield writer


def pieces(documents: Iterable[CorpusDocument]) -> Iterator[list[CorpusDocument]]:
    """Yield groups of neighbouring documents of about SHARD_BYTES each, so that memory does not grow with the shard."""
    piece: list[CorpusDocument] = []
    size = 0
    for document in documents:
        piece.append(document)
        size += len(document.data)
        if size >= SHARD_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def cut(lines: TokenRows, config: SequencesConfig) -> TokenRows:
    """Return the rows of a shard as they are stored.

    In stream mode the shard is one row of continuous text, which is divided into blocks later.
    """
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
    predicted: np.ndarray,
    tokenizer: TextTokenizer,
    config: SequencesConfig,
) -> dict[str, list[Any]]:
    """Return the columns of the `documents` table, without document_id.

    `predicted` is the result of predicted_by_stored_line(), (lines,).
    """
    line_counts = [len(text) for text in texts]
    bounds = ends(np.array(line_counts, np.int64))
    line_texts = [line for text in texts for line in text]
    rest_bits = np.zeros(len(lines))
    if config.long_lines == "truncate":
        kept = beginnings(tokenizer, line_texts, lines, config.context_length)
        line_texts, lines, rest_bits = kept.texts, kept.lines, kept.rest_bits
    unknown_tokens, restoration_bits = tokenization_loss(tokenizer, line_texts, lines, config.mode)
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


def predicted_by_stored_line(lines: TokenRows, config: SequencesConfig) -> np.ndarray:
    """Return the number of predicted tokens that each line has in its stored rows, (lines,) int64."""
    predicted = predicted_by_line(lines, config.mode)
    return np.minimum(predicted, config.context_length) if config.long_lines == "truncate" else predicted


def validation_lines(documents: list[CorpusDocument], predicted: np.ndarray) -> pa.Table:
    """Return the rows of the `validation_lines` table, without line_id.

    `predicted`, (lines,), contains the number of tokens of each line in the validation split.
    """
    digests = [digest for document in documents if document.split == "valid" for digest in digests_of(document)]
    return pa.table([np.array(digests, np.uint64), predicted], schema=VALIDATION_LINE_SCHEMA)


def training_lines(documents: list[CorpusDocument], highest: int) -> pa.Table:
    """Return the distinct digests of the training lines up to `highest`."""
    digests = {digest for document in documents if document.split == "train" for digest in digests_of(document)}
    kept = sorted(digest for digest in digests if digest <= highest)
    return pa.table([np.array(kept, np.uint64)], schema=TRAINING_LINE_SCHEMA)


def digests_of(document: CorpusDocument) -> list[int]:
    return line_digests([line.encode() for line in document.lines])


def highest_line_digest(corpus_bytes: int) -> int:
    """Return the limit for the digests of training lines. Lines with higher digests are not listed.

    The listed lines have about SKETCHED_BYTES bytes of text.
    """
    return (2**64 - 1) * SKETCHED_BYTES // max(SKETCHED_BYTES, corpus_bytes)


def arrow_rows(rows: TokenRows, vocabulary_size: int) -> pa.Array:
    """Return the rows as an Arrow list array of the narrowest integer type for the ids of the vocabulary."""
    offset_type = np.int32 if rows.offsets[-1] < 1 << 31 else np.int64
    lists = pa.ListArray if offset_type is np.int32 else pa.LargeListArray
    return lists.from_arrays(
        pa.array(rows.offsets.astype(offset_type)),
        pa.array(rows.token_ids.astype(token_type(vocabulary_size).to_pandas_dtype())),
    )


def shard_bytes(corpus_bytes: int) -> int:
    """Return the size of a shard in bytes of text.

    Up to 256 MiB of text, a shard has 2 MiB. Above this, both the size and the number of shards grow with the square
    root of the text's size: 780 shards of 13 MB for 10 GB, 7,800 shards of 128 MB for 1 TB.
    """
    return max(SHARD_BYTES, isqrt(corpus_bytes * SHARD_BYTES // SMALL_SHARDS))


def tokenize_shards(
    folder: Path,
    corpus: CorpusRecord,
    config: SequencesConfig,
    tokenizer_folder: Path,
    open_engine: OpenEngine = in_this_process,
) -> list[Shard]:
    """Tokenize all shards of the corpus, and return them in order. Complete shards are not tokenized again."""
    make = ShardMaker(corpus, config, tokenizer_folder)
    shards: list[Shard] = []
    tokens = 0
    with (
        open_engine(-(-corpus.corpus_bytes // TOKENIZED_BYTES_A_PROCESS)) as engine,
        Progress("sequences", corpus.corpus_bytes, BYTES) as progress,
    ):

        def missing_shards() -> Iterator[tuple[Shard]]:
            for number, byte_range in enumerate(byte_ranges(corpus, shard_bytes(corpus.corpus_bytes))):
                shard = Shard(folder / f"{number // SHARDS_A_FOLDER:03d}", number, byte_range)
                shards.append(shard)
                if shard.documents.exists():
                    progress.update(byte_range.byte_count)
                else:
                    shard.folder.mkdir(parents=True, exist_ok=True)
                    yield (shard,)

        for (shard,), predicted_tokens in results_in_order(engine, make, missing_shards()):
            tokens += predicted_tokens
            progress.facts(f"{tokens:,} tokens")
            progress.update(shard.byte_range.byte_count)
    return shards


@lru_cache(maxsize=1)
def cached_tokenizer(folder: Path) -> TextTokenizer:
    return load_tokenizer(folder)
