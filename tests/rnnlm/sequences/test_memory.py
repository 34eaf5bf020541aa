"""Checking and describing a dataset of five times the text takes at most 15 % more memory."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import ByteRange
from rnnlm.home import Home, write_json
from rnnlm.sequences import dataset_checks, dataset_writer
from rnnlm.sequences.corpus_shards import Shard, arrow_rows, cut
from rnnlm.sequences.segmentation import TokenRows, ends
from rnnlm.storage.records import SPLITS
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

Mode = Literal["sentence", "stream"]
WORDS = 20_000
SPECIAL = 4  # ids below are no words
SHARD_LINES = 25_000  # of 5 to 30 words: about 2 MB of text
DOCUMENT_LINES = 10
SPLIT_LINES = {"train": SHARD_LINES * 8 // 10, "valid": SHARD_LINES // 10, "test": SHARD_LINES // 10}
SCRIPT = """
import resource, sys
from pathlib import Path
import flows.pipeline_flow  # as in the process that runs the pipeline
from rnnlm.home import Home
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.sequences.dataset_lookup import record_of

dataset = record_of(Path(sys.argv[2]))
check_dataset(dataset)
describe_dataset(Home(Path(sys.argv[1])), dataset)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def word_tokenizer(home: Home, folder: Path) -> TextTokenizer:
    folder.mkdir()
    for split in SPLITS:
        (folder / f"{split}.txt").write_text("".join(f"w{number}\n" for number in range(WORDS)))
    source = CorpusConfig(source=str(folder))
    corpus = obtain_corpus(home, source)
    return load_tokenizer(train_tokenizer(home, corpus, TokenizerConfig(kind="word", vocabulary_size=2 * WORDS)).folder)


def write_shard(shard: Shard, config: SequencesConfig, tokenizer: TextTokenizer) -> None:
    """Lines of words drawn by Zipf's law, as documents of ten, in the files that tokenizing them would leave."""
    generator = np.random.default_rng(shard.number)
    weights = 1 / np.arange(1, WORDS + 1)
    documents = []
    for split, line_count in SPLIT_LINES.items():
        lengths = generator.integers(5, 31, line_count)
        drawn = np.searchsorted(np.cumsum(weights / weights.sum()), generator.random(lengths.sum()))
        lines = TokenRows((SPECIAL + np.minimum(drawn, WORDS - 1)).astype(np.int32), ends(lengths))
        table = pa.table({"token_ids": arrow_rows(cut(lines, config), tokenizer.vocabulary_size)})
        pq.write_table(table, shard.rows(split))
        for first in range(0, line_count, DOCUMENT_LINES):
            ids = lines.read(first, first + DOCUMENT_LINES).token_ids
            digest = hashlib.sha256(ids.tobytes()).hexdigest()
            documents.append((split, digest, len(ids) + DOCUMENT_LINES))
    columns = {
        "split": [split for split, _, _ in documents],
        "source_file": ["text.txt"] * len(documents),
        "source_number": [0] * len(documents),
        "byte_offset": [0] * len(documents),
        "byte_count": [5 * tokens for _, _, tokens in documents],
        "line_count": [DOCUMENT_LINES] * len(documents),
        "sha256": [digest for _, digest, _ in documents],
        "fingerprint": [digest for _, digest, _ in documents],
        "split_key": [digest[:16] for _, digest, _ in documents],
        "predicted_tokens": [tokens for _, _, tokens in documents],
        "unknown_tokens": [0] * len(documents),
        "restoration_bits": [0.0] * len(documents),
    }
    pq.write_table(pa.table(columns), shard.documents)


def store_large(home: Home, folder: Path, shard_count: int, mode: Mode, tokenizer: TextTokenizer) -> Path:
    """A dataset's folder: what store_sequences would write, without the text."""
    config = SequencesConfig(mode=mode)
    (folder / "shards").mkdir(parents=True)
    shards = [Shard(folder / "shards", number, ByteRange("text.txt", 0, 0)) for number in range(shard_count)]
    for shard in shards:
        write_shard(shard, config, tokenizer)
    with dataset_writer.new_database(folder, config) as connection:
        dataset_writer.DatasetWriter(connection, tokenizer, config).write(shards)
        row = ["", "", "", mode, config.context_length, config.block_length, tokenizer.vocabulary_size, True, "{}"]
        connection.execute(f"insert into dataset values ({', '.join('?' * len(row))})", row)
        counts = connection.execute(statement("queries/count_splits")).fetchall()
    facts = {
        "corpus_name": "large",
        "corpus_digest": "",
        "mode": mode,
        "vocabulary_size": tokenizer.vocabulary_size,
        "predicted_tokens": {split: tokens for split, _, tokens in counts},
        "sequence_counts": {split: rows for split, rows, _ in counts},
    }
    write_json(folder / "dataset.json", facts)
    return folder


def peak_mebibytes(home: Home, dataset_folder: Path) -> float:
    """Peak memory of a process that imports the pipeline, then checks and describes the dataset."""
    environment = os.environ | {"PYTHONPATH": str(Path(dataset_checks.__file__).parents[2])}
    command = [sys.executable, "-c", SCRIPT, str(home.root), str(dataset_folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 1024  # DuckDB may print its progress before it


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_memory_does_not_grow_with_the_dataset(home: Home, tmp_path: Path, mode: Mode) -> None:
    """20 and 100 shards: about 40 MB and 200 MB of text."""
    tokenizer = word_tokenizer(home, tmp_path / "words")
    few, many = (
        peak_mebibytes(home, store_large(home, home.datasets / f"{mode}-{shards}", shards, mode, tokenizer))
        for shards in (20, 100)
    )
    assert many < 1.15 * few
