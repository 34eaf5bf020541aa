"""Compute reference scores: the scores of a model's own validation text, with which scored texts are compared.

The validation text is used because a model has the same loss on it as on new text of the same kind. The loss on the
training text is lower.

The reference scores are stored in the model's folder (MODEL/reference/line.parquet and paragraph.parquet), so that a
registered version includes them. For a model without them, they are computed once and stored in the rnnlm home.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import EvaluationConfig, PipelineConfig
from rnnlm.errors import DatasetError
from rnnlm.evaluation.measurements import Measured, ModelMeasurement
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, read_text
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.extensions.scoring.document_reader import InputDocument, in_shards
from rnnlm.extensions.scoring.document_scores import SCORES_SCHEMA
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.scoring_model import FoundModel, find_model, model_in
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, atomic_file, remove_partials
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.sql_statements import statement
from rnnlm.storage.stages import STAGE_VERSIONS

Unit = Literal["line", "paragraph"]
DOCUMENT_UNITS: tuple[Unit, ...] = get_args(Unit)
FOLDER = "reference"
REFERENCE_VERSION = str(STAGE_VERSIONS["reference-scores"]).encode()
# The largest number of documents with reference scores. They are sampled evenly from the validation split.
REFERENCE_DOCUMENTS = 10_000
# If the model has not scored the validation text yet, only about this many bytes are sampled, but not fewer than about
# ENOUGH_DOCUMENTS.
REFERENCE_BYTES = 100_000
# A sufficient number of documents. With this number, the distance that arises by chance is at most 1.95 / sqrt(500) =
# 0.09, half the drift threshold.
ENOUGH_DOCUMENTS = 500
VERSION_KEY, MODEL_KEY, DIGEST_KEY = b"rnnlm reference", b"rnnlm model", b"rnnlm digest"


def keep_references(home: Home, dataset: DatasetRecord, run: RunRecord, *, force: bool = False) -> list[Path]:
    """Store the scores of the run's validation text by line and by paragraph in the model's folder, unless they exist.

    The losses from the run's evaluation are reused if the dataset's rows are whole lines, each scored independently.
    """
    model = model_in(run.model_folder, run.run_id)
    batch_size = EvaluationConfig().batch_size
    paths = [model.folder / FOLDER / f"{unit}.parquet" for unit in DOCUMENT_UNITS]
    with home.lock(f"reference-{model.digest[:16]}"):
        for unit, path in zip(DOCUMENT_UNITS, paths, strict=True):
            remove_partials(path)
            if force or not is_reference(path, model):
                nll_nats = stored_nll(home, dataset, run, "valid", batch_size) if dataset.scored_as_text else None
                write_reference(home, dataset, model, unit, path, nll_nats)
    return paths


def find_reference(home: Home, reference: str | None, unit: Unit) -> Path:
    """Return the file with a model's reference scores. If the file is missing, compute them.

    Raise DatasetError or CorpusError if they must be computed but the model's dataset or text is missing or damaged.
    """
    model = find_model(home, reference)
    stored = model.folder / FOLDER / f"{unit}.parquet"
    if is_reference(stored, model):
        return stored
    folder = home.references / model.digest[:16]
    path = folder / f"{unit}.parquet"
    with home.lock(f"reference-{model.digest[:16]}"):
        if not is_reference(path, model):
            dataset = find_dataset(home, str(inside(home.datasets, model.origin.dataset_id)))
            if dataset is None:
                raise DatasetError(
                    f"{model.reference}: has no scores of its validation text, and its dataset "
                    f"{model.origin.dataset_id} is not under {home.datasets};\n"
                    "train it again, or copy that dataset and its corpus there"
                )
            write_reference(home, dataset, model, unit, path)
    return path


def is_reference(path: Path, model: FoundModel) -> bool:
    """Return True if the file contains undamaged scores of this model by the current version of the code.

    Files that rnnlm 0.3 wrote contain no digest of their rows, but the marker of a registered version contains a digest
    of the file.
    """
    if not path.is_file():
        return False
    try:
        metadata = pq.read_metadata(path).metadata or {}
        if metadata.get(VERSION_KEY) != REFERENCE_VERSION or metadata.get(MODEL_KEY) != model.digest.encode():
            return False
        return metadata.get(DIGEST_KEY) in (None, rows_digest([pq.read_table(path)]))
    except (OSError, ValueError, pa.ArrowException):
        return False


def rows_digest(tables: Iterable[pa.Table]) -> bytes:
    """Return the sha256 of the rows of all tables, however they are divided among the tables."""
    digest = hashlib.sha256()
    for table in tables:
        for row in table.to_pylist():
            digest.update(repr(row).encode())
    return digest.hexdigest().encode()


def write_reference(
    home: Home, dataset: DatasetRecord, model: FoundModel, unit: Unit, path: Path, nll_nats: np.ndarray | None = None
) -> None:
    """Write a table of SCORES_SCHEMA without texts and surprising tokens.

    `nll_nats` are the losses of the validation split, if they are already known.
    """
    config = ScoringConfig(input="-", document=unit, keep_text=False, surprising_tokens=0)
    score = model.load(config)
    schema = SCORES_SCHEMA.with_metadata({VERSION_KEY: REFERENCE_VERSION, MODEL_KEY: model.digest.encode()})
    texts, every = validation_texts(home, dataset, model, unit, known=nll_nats is not None)
    known_nll = iter(nll_nats) if nll_nats is not None and every == 1 else None
    found = (InputDocument(number, "validation", number, None, text) for number, text in enumerate(texts))
    home.make(path.parent)
    with atomic_file(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:

        def written() -> Iterator[pa.Table]:
            for shard in in_shards(found, config):
                table = score(shard, known_nll).replace_schema_metadata(schema.metadata)
                writer.write_table(table)
                yield table

        writer.add_key_value_metadata({DIGEST_KEY: rows_digest(written())})


def validation_texts(
    home: Home, dataset: DatasetRecord, model: FoundModel, unit: Unit, *, known: bool = False
) -> tuple[Iterator[str], int]:
    """Return an iterator over every n-th line or whole document, and the number n, which is 1 if all are used.

    If the losses of the texts are already `known`, the limit REFERENCE_BYTES does not apply. The iterator raises
    CorpusError if the text is missing or has changed.
    """
    corpus = inside(home.corpora, model.origin.corpus_digest[:16])
    with connect(dataset) as connection:
        rows = connection.execute(statement("scoring/read_validation_documents")).fetchall()
    count = sum(row[-1] for row in rows) if unit == "line" else len(rows)
    documents = [HoldoutDocument(*row[:-1]) for row in rows]
    byte_count = sum(document.byte_count for document in documents)
    every = 1 if known and count <= REFERENCE_DOCUMENTS else sampled_every(count, byte_count)
    found = (read_text(corpus, document) for document in documents)
    texts = (text for whole in found for text in (whole.split("\n") if unit == "line" else [whole]) if text.strip())
    return itertools.islice(texts, 0, None, every), every


def sampled_every(count: int, byte_count: int) -> int:
    """Return n if every n-th of `count` documents is sampled for the reference, or 1 if all documents are used."""
    for_bytes = min(-(-byte_count // REFERENCE_BYTES), count // ENOUGH_DOCUMENTS)
    return max(1, -(-count // REFERENCE_DOCUMENTS), for_bytes)


def references_of_run(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, force: bool
) -> Measured:
    keep_references(home, dataset, run, force=force)
    return Measured()


REFERENCE_SCORES = ModelMeasurement("reference scores", references_of_run)
