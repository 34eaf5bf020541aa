"""Storage of a corpus as token sequences in a DuckDB file.

The sequences of a large corpus are stored in Parquet parts next to this file.
"""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb

from rnnlm.config import PipelineConfig, SequencesConfig, result_settings
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.hard_wrapping import looks_hard_wrapped
from rnnlm.corpora.small_corpora import explain_empty_split
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.runtime.engines import OpenEngine, in_this_process
from rnnlm.sequences.corpus_shards import Shard, highest_line_digest, tokenize_shards
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.table_writer import TableWriter
from rnnlm.storage.home import Home, digest_of, write_json
from rnnlm.storage.records import SPLITS, CorpusRecord, DatasetRecord, Split, TokenizerRecord
from rnnlm.storage.sql_statements import statement
from rnnlm.storage.stage_folders import DatasetFolder
from rnnlm.storage.stages import COMPLETE, STAGE_VERSIONS, stage, write_once
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

logger = logging.getLogger(__name__)
# The fraction of unknown tokens above which a warning is logged. In English text with a vocabulary of 10,000 words, 5
# to 15 % of the tokens are unknown.
NOTICEABLE_UNKNOWN_SHARE = 0.3


def prepare_dataset(home: Home, config: PipelineConfig) -> DatasetRecord:
    """Create the dataset of a configuration without a Prefect flow. Stages with existing output are skipped."""
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
    """Store a dataset under home.datasets. Its name is the digest of everything on which it depends.

    The dataset is checked by sql/checks. A killed run continues after its complete shards. Raise CorpusError if one of
    `required_splits` has no token to predict.
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
        write_json(DatasetFolder(partial).facts_path, facts)
        check_dataset(DatasetFolder(partial).record())

    skipped = write_once(home, folder, build, force=force, pieces=shard_folder)
    # The name of the corpus is updated, because the corpus may have been renamed since the dataset was stored.
    return DatasetFolder(folder).record().model_copy(update={"corpus_name": corpus.name, "skipped": skipped})


def dataset_provenance(
    corpus: CorpusRecord, tokenizer: TokenizerRecord, config: SequencesConfig, required_splits: tuple[Split, ...]
) -> dict[str, Any]:
    """Return everything on which the content of a dataset depends."""
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

    Return a tuple for each split, with its name, its number of sequences and its number of predicted tokens.
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
        TableWriter(connection, text_tokenizer, config, parts).write(shards)
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
            "a model learns little from them, so set %s",
            source,
            100 * unknown / predicted,
            kind.partition(":")[0],
            others,
        )


def new_database(folder: Path, config: SequencesConfig) -> duckdb.DuckDBPyConnection:
    """Create an empty dataset file. While it is open, DuckDB stores temporary data in a folder next to it."""
    return duckdb.connect(
        str(folder / "sequences.duckdb"),
        config={
            "memory_limit": f"{config.memory_mebibytes}MiB",
            "temp_directory": str(folder.parent / f"{folder.name}.spilled"),
            "preserve_insertion_order": "true",  # This setting keeps the rows of a split in the order of sequence_id.
        },
    )


@contextmanager
def memory_shortage_explained(config: SequencesConfig) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DatasetError(
            f"sequences.memory_mebibytes={config.memory_mebibytes} is too little memory to store this dataset;\n"
            "raise it and run again (tokenized shards are kept)"
        ) from error
