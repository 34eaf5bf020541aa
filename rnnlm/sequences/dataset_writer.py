"""A corpus becomes one DuckDB file: token sequences whose shift by one stands in SQL, in one place."""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.hard_wrapping import looks_hard_wrapped
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.home import Home, digest_of, write_json
from rnnlm.records import SPLITS, CorpusRecord, DatasetRecord, Split, TokenizerRecord
from rnnlm.sequences.corpus_shards import Shard, arrow_rows, tokenize_shards
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_lookup import record_of
from rnnlm.sequences.dataset_reader import rows_from_arrow
from rnnlm.sequences.segmentation import StreamCutter, TokenRows, join_rows
from rnnlm.sequences.sql_tables import create_token_type, insert, token_type
from rnnlm.sql_statements import statement
from rnnlm.stages import STAGE_VERSIONS, stage, write_once
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

logger = logging.getLogger(__name__)
TOKENS_AT_ONCE = 4_000_000  # inserted together


def prepare_dataset(home: Home, config: PipelineConfig) -> DatasetRecord:
    """A configuration's dataset, with the stages before it, without a flow; each stage is skipped if it is done."""
    corpus = obtain_corpus(home, config.corpus)
    return store_sequences(home, corpus, train_tokenizer(home, corpus, config.tokenizer), config.sequences)


@stage("sequences")
def store_sequences(
    home: Home,
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    *,
    required_splits: tuple[Split, ...] = SPLITS,
    force: bool = False,
) -> DatasetRecord:
    """A dataset under home.datasets, named by the digest of all that it depends on.

    Shards tokenized before a kill are not tokenized again. CorpusError where one of `required_splits`
    holds no token to predict.
    """
    provenance = {
        "stage": STAGE_VERSIONS["sequences"],
        "corpus": corpus.digest,
        "shares": corpus.shares,
        "tokenizer": tokenizer.digest,
        "sequences": {name: getattr(config, name) for name in ("mode", "context_length", "block_length")},
        "required_splits": list(required_splits),
        "versions": {name: version(name) for name in ("duckdb", "tokenizers")},
    }
    dataset_id = digest_of(provenance)[:16]
    folder, shard_folder = home.datasets / dataset_id, home.shards / dataset_id

    def build(partial: Path) -> None:
        if force:
            shutil.rmtree(shard_folder, ignore_errors=True)
        if config.mode == "sentence" and looks_hard_wrapped(corpus):
            logger.warning(
                "%s: its lines look broken at a width, and sequences.mode=sentence takes each for a sentence;\n"
                "set sequences.mode=stream, or give text with a paragraph or sentence a line",
                corpus.source,
            )
        shards = tokenize_shards(shard_folder, corpus, config, tokenizer.folder)
        shutil.copytree(tokenizer.folder, partial / "tokenizer", ignore=shutil.ignore_patterns("COMPLETE"))
        face = load_tokenizer(tokenizer.folder)
        with new_database(partial, config) as connection, want_of_memory_told(config):
            DatasetWriter(connection, face, config).write(shards)
            write_provenance(connection, dataset_id, corpus, tokenizer, config, face, provenance)
            counts = connection.execute(statement("queries/count_splits")).fetchall()
        predicted: dict[str, int] = {split: tokens for split, _, tokens in counts}
        for split in required_splits:
            if not predicted.get(split):
                shutil.rmtree(shard_folder)
                raise CorpusError(
                    f"{corpus.source}: the {split} split holds no token to predict; put text into {split}.txt,\n"
                    f"or raise corpus.{'valid' if split == 'train' else split}_share where one text is split"
                )
        facts = {
            "corpus_name": corpus.name,
            "corpus_digest": corpus.digest,
            "mode": config.mode,
            "vocabulary_size": face.vocabulary_size,
            "predicted_tokens": predicted,
            "sequence_counts": {split: rows for split, rows, _ in counts},
        }
        write_json(partial / "dataset.json", facts)
        check_dataset(record_of(partial))

    skipped = write_once(home, folder, build, force=force)
    with home.lock(f"{folder.parent.name}-{folder.name}"):  # write_once's own: another process may be at these shards
        shutil.rmtree(shard_folder, ignore_errors=True)
    # The same text may be known by another name now.
    return record_of(folder).model_copy(update={"corpus_name": corpus.name, "skipped": skipped})


def new_database(folder: Path, config: SequencesConfig) -> duckdb.DuckDBPyConnection:
    """An empty dataset file. What does not fit DuckDB's memory is spilled beside it, and gone at the end."""
    return duckdb.connect(
        str(folder / "sequences.duckdb"),
        config={
            "memory_limit": f"{config.memory_mebibytes}MiB",
            "temp_directory": str(folder.parent / f"{folder.name}.spilled"),
            "preserve_insertion_order": "true",  # rows of a split lie in the file in order of sequence_id
        },
    )


@contextmanager
def want_of_memory_told(config: SequencesConfig) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DatasetError(
            f"sequences.memory_mebibytes: {config.memory_mebibytes} is too little to store this dataset;\n"
            "raise it (what is tokenized is kept)"
        ) from error


class DatasetWriter:
    """Fills the tables of a new dataset file from tokenized shards."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, face: TextTokenizer, config: SequencesConfig) -> None:
        self.connection = connection
        self.face = face
        self.config = config
        connection.execute(statement("schema/split"))
        create_token_type(connection, face.vocabulary_size)
        for name in ("schema/shifted_sequences", "schema/documents", "schema/tokens", "schema/dataset"):
            connection.execute(statement(name))

    def write(self, shards: list[Shard]) -> None:
        """One split after the other, so that a range of a split's rows is one place of the file."""
        for split in SPLITS:
            rows = (stored_rows(shard.rows(split)) for shard in shards)
            first = 0
            for batch in in_batches(rows if self.config.mode == "sentence" else self.blocks(rows)):
                self.insert_rows(split, first, batch)
                first += len(batch)
        next_document = 0
        for shard in shards:
            facts = pq.read_table(shard.documents)
            ids = pa.array(np.arange(next_document, next_document + len(facts)))
            insert(self.connection, "queries/insert_documents", facts.append_column("document_id", ids))
            next_document += len(facts)
        token_ids = list(range(self.face.vocabulary_size))
        id_column = pa.array(token_ids, token_type(self.face.vocabulary_size))
        insert(
            self.connection,
            "queries/insert_tokens",
            pa.table({"token_id": id_column, "token": self.face.pieces(token_ids)}),
        )

    def blocks(self, texts: Iterable[TokenRows]) -> Iterator[TokenRows]:
        """The stream of a split, which runs on over the borders of shards, as blocks."""
        cutter = StreamCutter(self.config.block_length)
        for text in texts:
            yield cutter.add(text.token_ids)
        yield cutter.finish()

    def insert_rows(self, split: Split, first: int, rows: TokenRows) -> None:
        table = pa.table(
            {
                "split": [split] * len(rows),
                "sequence_id": np.arange(first, first + len(rows)),
                "token_ids": arrow_rows(rows, self.face.vocabulary_size),
            }
        )
        insert(self.connection, "queries/insert_sequences", table)


def stored_rows(path: Path) -> TokenRows:
    """The rows of a Parquet file of a shard."""
    return rows_from_arrow(pq.read_table(path))


def in_batches(parts: Iterable[TokenRows]) -> Iterator[TokenRows]:
    """The same rows in larger parts: an insertion each costs more than the rows of a shard."""
    waiting: list[TokenRows] = []
    for part in parts:
        waiting.append(part)
        if sum(len(rows.token_ids) for rows in waiting) >= TOKENS_AT_ONCE:
            yield join_rows(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield join_rows(waiting)


def write_provenance(
    connection: duckdb.DuckDBPyConnection,
    dataset_id: str,
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    face: TextTokenizer,
    provenance: dict[str, Any],
) -> None:
    connection.execute(
        statement("queries/insert_dataset"),
        {
            "dataset_id": dataset_id,
            "corpus_digest": corpus.digest,
            "tokenizer_digest": tokenizer.digest,
            "mode": config.mode,
            "context_length": config.context_length,
            "block_length": config.block_length,
            "vocabulary_size": face.vocabulary_size,
            "splits_given": "text" not in corpus.files,
            "provenance": json.dumps(provenance, sort_keys=True),
        },
    )
