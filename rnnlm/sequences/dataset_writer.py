"""Storage of a corpus as token sequences in a DuckDB file.

For a large corpus they are Parquet parts next to this file.
"""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import PipelineConfig, SequencesConfig, result_settings
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.hard_wrapping import looks_hard_wrapped
from rnnlm.corpora.small_corpora import explain_empty_split
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.runtime.engines import OpenEngine, in_this_process
from rnnlm.sequences.corpus_shards import Shard, arrow_rows, highest_line_digest, tokenize_shards
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_lookup import record_of
from rnnlm.sequences.dataset_parts import rows_from_arrow
from rnnlm.sequences.part_writer import PartWriter, create_view
from rnnlm.sequences.segmentation import StreamCutter, TokenRows, join_rows
from rnnlm.sequences.sql_tables import create_token_type, insert, token_type
from rnnlm.storage.home import Home, digest_of, write_json
from rnnlm.storage.records import SPLITS, CorpusRecord, DatasetRecord, Split, TokenizerRecord
from rnnlm.storage.sql_statements import statement
from rnnlm.storage.stages import COMPLETE, STAGE_VERSIONS, stage, write_once
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

logger = logging.getLogger(__name__)
NOTICEABLE_UNKNOWN_SHARE = 0.3  # English text with a vocabulary of 10,000 words has a fraction of 5 to 15 %.
TOKENS_AT_ONCE = 4_000_000  # This number of tokens is inserted at once.


def prepare_dataset(home: Home, config: PipelineConfig) -> DatasetRecord:
    """Create the dataset of a configuration outside a flow. Stages whose output exists are skipped."""
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
    open_engine: OpenEngine = in_this_process,
) -> DatasetRecord:
    """Store a dataset under home.datasets. Its name is the digest of everything that it depends on.

    The dataset is checked by sql/checks. A run that was killed continues after its complete shards. Raise CorpusError
    if one of `required_splits` has no token to predict.
    """
    provenance = dataset_provenance(corpus, tokenizer, config, required_splits)
    dataset_id = digest_of(provenance)[:16]
    folder, shard_folder = home.datasets / dataset_id, home.shards / dataset_id

    def build(partial: Path) -> None:
        if config.mode == "sentence":
            warn_of_hard_wrapping(corpus)
        shards = tokenize_shards(shard_folder, corpus, config, tokenizer.folder, open_engine)
        shutil.copytree(tokenizer.folder, partial / "tokenizer", ignore=shutil.ignore_patterns(COMPLETE))
        counts = write_database(partial, shards, corpus, tokenizer, config, provenance)
        predicted: dict[str, int] = {split: tokens for split, _, tokens in counts}
        for split in required_splits:
            if not predicted.get(split):
                shutil.rmtree(shard_folder)
                raise CorpusError(f"{corpus.source}: {explain_empty_split(corpus, split)}")
        facts = {
            "corpus_name": corpus.name,
            "corpus_digest": corpus.digest,
            "mode": config.mode,
            "long_lines": config.long_lines,
            "vocabulary_size": tokenizer.vocabulary_size,
            "predicted_tokens": predicted,
            "sequence_counts": {split: rows for split, rows, _ in counts},
        }
        write_json(partial / "dataset.json", facts)
        check_dataset(record_of(partial))

    skipped = write_once(home, folder, build, force=force, pieces=shard_folder)
    # The same text may have got another name since the dataset was stored.
    return record_of(folder).model_copy(update={"corpus_name": corpus.name, "skipped": skipped})


def dataset_provenance(
    corpus: CorpusRecord, tokenizer: TokenizerRecord, config: SequencesConfig, required_splits: tuple[Split, ...]
) -> dict[str, Any]:
    """Return everything that the content of a dataset depends on."""
    return {
        "stage": STAGE_VERSIONS["sequences"],
        "corpus": corpus.digest,
        "shares": corpus.split_rule,
        "tokenizer": tokenizer.digest,
        "sequences": result_settings(config),
        "required_splits": list(required_splits),
        "versions": {name: version(name) for name in ("duckdb", "tokenizers")},
    }


def warn_of_hard_wrapping(corpus: CorpusRecord) -> None:
    if looks_hard_wrapped(corpus):
        logger.warning(
            "%s: its lines look wrapped at a fixed width, but sequences.mode=sentence reads each line as a sentence;\n"
            "set sequences.mode=stream, or give text with one paragraph or sentence per line",
            corpus.source,
        )


def write_database(
    folder: Path,
    shards: list[Shard],
    corpus: CorpusRecord,
    tokenizer: TokenizerRecord,
    config: SequencesConfig,
    provenance: dict[str, Any],
) -> list[tuple[str, int, int]]:
    """Write the dataset's DuckDB file, and its parts if it is large.

    Return the split, the number of sequences and the number of predicted tokens for each split.
    """
    text_tokenizer = load_tokenizer(tokenizer.folder)
    dataset_row = {
        "dataset_id": digest_of(provenance)[:16],
        "corpus_digest": corpus.digest,
        "tokenizer_digest": tokenizer.digest,
        "mode": config.mode,
        "context_length": config.context_length,
        "block_length": config.block_length,
        "vocabulary_size": text_tokenizer.vocabulary_size,
        "splits_given": "text" not in corpus.files,
        "highest_line_digest": highest_line_digest(corpus.corpus_bytes),
        "provenance": json.dumps(provenance, sort_keys=True),
    }
    parts = folder / "parts" if corpus.corpus_bytes > config.parts_above_bytes else None
    with new_database(folder, config) as connection, memory_shortage_explained(config):
        DatasetWriter(connection, text_tokenizer, config, parts).write(shards)
        connection.execute(statement("queries/insert_dataset"), dataset_row)
        counts = connection.execute(statement("queries/count_splits")).fetchall()
        warn_of_unknown_words(connection, tokenizer.kind, corpus.source)
    return counts


def warn_of_unknown_words(connection: duckdb.DuckDBPyConnection, kind: str, source: str) -> None:
    """Warn if the model will mostly predict <unk>, for instance because Chinese has no spaces between words."""
    row = connection.execute(statement("queries/measure_split"), {"split": "valid"}).fetchone()
    assert row is not None
    _, predicted, unknown, _ = row
    if predicted and unknown / predicted >= NOTICEABLE_UNKNOWN_SHARE:
        others = "tokenizer.kind=bpe" if kind == "char" else "tokenizer.kind=bpe or tokenizer.kind=char"
        logger.warning(
            "%s: %.0f %% of the validation split's tokens are unknown to the %s tokenizer;\n"
            "a model learns little from them: set %s",
            source,
            100 * unknown / predicted,
            kind.partition(":")[0],
            others,
        )


def new_database(folder: Path, config: SequencesConfig) -> duckdb.DuckDBPyConnection:
    """Create an empty dataset file. DuckDB uses a folder next to it for temporary data, and removes it at the end."""
    return duckdb.connect(
        str(folder / "sequences.duckdb"),
        config={
            "memory_limit": f"{config.memory_mebibytes}MiB",
            "temp_directory": str(folder.parent / f"{folder.name}.spilled"),
            "preserve_insertion_order": "true",  # The rows of a split in a file must be in the order of sequence_id.
        },
    )


@contextmanager
def memory_shortage_explained(config: SequencesConfig) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DatasetError(
            f"sequences.memory_mebibytes: {config.memory_mebibytes} is too little to store this dataset;\n"
            "raise it (tokenized shards are kept)"
        ) from error


class DatasetWriter:
    """A writer that fills the tables of a new dataset file from tokenized shards.

    `parts` is a new folder for the sequences. If it is None, the sequences are stored in the file itself.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tokenizer: TextTokenizer,
        config: SequencesConfig,
        parts: Path | None = None,
    ) -> None:
        self.connection = connection
        self.tokenizer = tokenizer
        self.config = config
        self.parts = parts
        connection.execute(statement("schema/split"))
        create_token_type(connection, tokenizer.vocabulary_size)
        for name in (
            "schema/documents",
            "schema/validation_lines",
            "schema/training_lines",
            "schema/tokens",
            "schema/dataset",
        ):
            connection.execute(statement(name))

    def write(self, shards: list[Shard]) -> None:
        if self.parts is None:
            self.insert_sequences(shards)
        else:
            self.write_parts(shards, self.parts)
        self.insert_documents(shards)
        self.insert_lines(shards)
        self.insert_tokens()

    def insert_sequences(self, shards: list[Shard]) -> None:
        """Insert the sequences of one split after the other, so that each split is contiguous in the file."""
        self.connection.execute(statement("schema/shifted_sequences"))
        for split in SPLITS:
            for rows, _ in self.sequences(shards, split):
                with_split = rows.append_column("split", [[split] * len(rows)])
                insert(self.connection, "queries/insert_sequences", with_split)

    def write_parts(self, shards: list[Shard], folder: Path) -> None:
        folder.mkdir()
        row_type = pa.list_(token_type(self.tokenizer.vocabulary_size))
        schema = pa.schema({"sequence_id": pa.int64(), "token_ids": row_type})
        for split in SPLITS:
            with closing(PartWriter(folder, split, schema)) as writer:
                for rows, token_count in self.sequences(shards, split):
                    writer.write(rows, token_count)
        create_view(self.connection, folder)

    def sequences(self, shards: list[Shard], split: Split) -> Iterator[tuple[pa.Table, int]]:
        """Yield the rows (sequence_id, token_ids) of a split in order, and their number of tokens.

        Each table has a few million tokens.
        """
        shard_rows = (stored_rows(shard.rows(split)) for shard in shards)
        first = 0
        for rows in in_batches(shard_rows if self.config.mode == "sentence" else self.blocks(shard_rows)):
            columns = {
                "sequence_id": np.arange(first, first + len(rows)),
                "token_ids": arrow_rows(rows, self.tokenizer.vocabulary_size),
            }
            yield pa.table(columns), len(rows.token_ids)
            first += len(rows)

    def insert_documents(self, shards: list[Shard]) -> None:
        self.insert_numbered("queries/insert_documents", "document_id", [shard.documents for shard in shards])

    def insert_lines(self, shards: list[Shard]) -> None:
        self.insert_numbered("queries/insert_validation_lines", "line_id", [shard.validation_lines for shard in shards])
        for shard in shards:
            insert(self.connection, "queries/insert_training_lines", pq.read_table(shard.training_lines))

    def insert_numbered(self, name: str, column: str, files: list[Path]) -> None:
        """Insert the rows of Parquet files with a statement of sql/. `column` numbers them from 0 over all files."""
        first = 0
        for file in files:
            rows = pq.read_table(file)
            insert(self.connection, name, rows.append_column(column, pa.array(np.arange(first, first + len(rows)))))
            first += len(rows)

    def insert_tokens(self) -> None:
        vocabulary_size = self.tokenizer.vocabulary_size
        token_ids = list(range(vocabulary_size))
        tokens = {
            "token_id": pa.array(token_ids, token_type(vocabulary_size)),
            "token": self.tokenizer.pieces(token_ids),
        }
        insert(self.connection, "queries/insert_tokens", pa.table(tokens))

    def blocks(self, texts: Iterable[TokenRows]) -> Iterator[TokenRows]:
        """Yield the stream of a split as blocks. A block may contain text of several shards."""
        cutter = StreamCutter(self.config.block_length)
        for text in texts:
            yield cutter.add(text.token_ids)
        yield cutter.finish()


def stored_rows(path: Path) -> TokenRows:
    """Return the rows in the Parquet file of a shard."""
    return rows_from_arrow(pq.read_table(path))


def in_batches(parts: Iterable[TokenRows]) -> Iterator[TokenRows]:
    """Yield the rows of several parts joined together, because each insertion takes more time than its rows."""
    waiting: list[TokenRows] = []
    for part in parts:
        waiting.append(part)
        if sum(len(rows.token_ids) for rows in waiting) >= TOKENS_AT_ONCE:
            yield join_rows(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield join_rows(waiting)
