"""Counts of the words, or characters, in a corpus's training documents.

The words of each byte range are counted separately. The counts are then added.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.splits import ByteRange, byte_ranges, documents_in
from rnnlm.runtime.engines import OpenEngine, in_this_process, results_in_order
from rnnlm.storage.home import atomic_file
from rnnlm.storage.records import CorpusRecord
from rnnlm.tokenizers.splitters import untrained

logger = logging.getLogger(__name__)
MAXIMUM_DISTINCT = 2_000_000  # The largest number of distinct words in memory. They need about 250 MB.
SMALLEST_RANGE_BYTES = 16 << 20
# The number of bytes per process. A process needs 5 to 10 s to start, and counts about 8 MB per second.
COUNTED_BYTES_A_PROCESS = 128 << 20
MOST_RANGES = 1000


class WordCounts:
    """Counts of words in bounded memory. If there are more than MAXIMUM_DISTINCT words, the rarest ones are dropped.

    This is lossy counting (Manku and Motwani 2002). A count is too low by at most the final value of `floor`.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.floor = 0

    def add(self, words: Iterable[str] | Mapping[str, int]) -> None:
        """Count words, or add the given counts to the stored ones."""
        self.counts.update(words)
        while len(self.counts) > MAXIMUM_DISTINCT:
            self.floor += 1
            for word in [word for word, count in self.counts.items() if count <= self.floor]:
                del self.counts[word]
            logger.warning(
                "the text has more than %s distinct words, so those seen at most %d times until now are dropped",
                f"{MAXIMUM_DISTINCT:,}",
                self.floor,
            )


def count_corpus(
    corpus: CorpusRecord, config: TokenizerConfig, folder: Path, open_engine: OpenEngine = in_this_process
) -> Counter[str]:
    """Return the number of occurrences of each word in the training documents, which does not depend on the engine.

    `folder` receives a file for each byte range of the corpus. Ranges that already have a file are not counted again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    range_bytes = max(SMALLEST_RANGE_BYTES, -(-corpus.corpus_bytes // MOST_RANGES))
    total = WordCounts()
    with open_engine(-(-corpus.corpus_bytes // COUNTED_BYTES_A_PROCESS)) as engine:
        calls = ((corpus, config, byte_range, folder) for byte_range in byte_ranges(corpus, range_bytes))
        for _, path in results_in_order(engine, count_byte_range, calls):
            counts = pq.read_table(path)
            total.add(dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True)))
    return total.counts


def count_byte_range(corpus: CorpusRecord, config: TokenizerConfig, byte_range: ByteRange, folder: Path) -> Path:
    """Count the words of the training documents in a byte range. Return a file with rows (word, count).

    The result is a file, because Prefect keeps the values that tasks return in memory for some time.
    """
    path = folder / f"{Path(byte_range.source_file).stem}-{byte_range.byte_offset}-{byte_range.byte_count}.parquet"
    if not path.exists():
        documents = (document for document in documents_in(corpus, byte_range) if document.split == "train")
        counts = count_words((line for document in documents for line in document.lines), config)
        columns = {"word": pa.array(counts.keys(), pa.string()), "count": pa.array(counts.values(), pa.int64())}
        with atomic_file(path) as partial:
            pq.write_table(pa.table(columns), partial)
    return path


def count_words(lines: Iterable[str], config: TokenizerConfig) -> Counter[str]:
    found = WordCounts()
    for words in words_of_lines(lines, config):
        found.add(words)
    return found.counts


def words_of_lines(lines: Iterable[str], config: TokenizerConfig) -> Iterator[Iterable[str]]:
    if config.kind == "char":
        yield from lines
    elif config.splitting == "whitespace":
        yield from (line.split() for line in lines)
    else:
        pre_tokenizer = untrained(config.kind, config.splitting, config.unknown_literal).pre_tokenizer
        yield from ([word for word, _ in pre_tokenizer.pre_tokenize_str(line)] for line in lines)
