"""What validation text scores under its model: the distribution that scored texts are compared with.

Of the validation split, not of the training split: a model has learnt from that one, and text of the very same kind
that it has not seen costs more. Held-out text costs what new text of that kind will.

It lies with the model (MODEL/reference/line.parquet, paragraph.parquet), so that it travels with a registered version;
where a model came without, it is computed once and kept in the home.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import EvaluationConfig
from rnnlm.errors import DatasetError
from rnnlm.evaluation.document_losses import in_order
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.home import Home, atomic_file, remove_partials
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.scoring.document_reader import InputDocument, in_shards
from rnnlm.scoring.document_scores import SCORES_SCHEMA
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.scoring.scoring_model import FoundModel, find_model, model_in
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sql_statements import statement

Unit = Literal["line", "paragraph"]
UNITS: tuple[Unit, ...] = get_args(Unit)
FOLDER = "reference"
REFERENCE_VERSION = b"1"  # raised when the same text scores differently
# Of the validation split, evenly spread over it. A distribution does not need all of a text whose scoring takes time.
REFERENCE_DOCUMENTS = 10_000  # at most
REFERENCE_BYTES = 100_000  # at most, where the model has to read them; but then about ENOUGH_DOCUMENTS at least:
ENOUGH_DOCUMENTS = 500  # chance alone makes a distance of 1.95 / sqrt(500) = 0.09, half of what counts as drift
VERSION_KEY, MODEL_KEY = b"rnnlm reference", b"rnnlm model"


def keep_references(home: Home, dataset: DatasetRecord, run: RunRecord, *, force: bool = False) -> list[Path]:
    """Score the run's validation text in both units, beside its model, unless that is there.

    In sentence mode each line is scored by itself, as in the run's evaluation, whose losses are taken.
    """
    model = model_in(run.model_folder, run.run_id)
    sentences = dataset.mode == "sentence"
    batch_size = EvaluationConfig().batch_size
    paths = [model.folder / FOLDER / f"{unit}.parquet" for unit in UNITS]
    with home.lock(f"reference-{model.digest[:16]}"):
        for unit, path in zip(UNITS, paths, strict=True):
            remove_partials(path)
            if force or not is_reference(path, model):
                nll_nats = stored_nll(home, dataset, run, "valid", batch_size) if sentences else None
                write_reference(home, dataset, model, unit, path, nll_nats)
    return paths


def find_reference(home: Home, reference: str | None, unit: Unit) -> Path:
    """The file of a model's validation scores, computed where it is missing and the model's dataset is at hand.

    DatasetError where it is not.
    """
    model = find_model(home, reference)
    kept = model.folder / FOLDER / f"{unit}.parquet"
    if is_reference(kept, model):
        return kept
    folder = home.references / model.digest[:16]
    path = folder / f"{unit}.parquet"
    with home.lock(f"reference-{model.digest[:16]}"):
        if not is_reference(path, model):
            dataset = find_dataset(home, model.origin.dataset_id)
            if dataset is None:
                raise DatasetError(
                    f"{model.reference}: came without the scores of its validation text, and its dataset "
                    f"{model.origin.dataset_id} is not under {home.datasets};\n"
                    "train it again, or copy that dataset and its corpus there"
                )
            write_reference(home, dataset, model, unit, path)
    return path


def is_reference(path: Path, model: FoundModel) -> bool:
    """True for scores of this very model, made by this version of the code."""
    if not path.is_file():
        return False
    try:
        said = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return said.get(VERSION_KEY) == REFERENCE_VERSION and said.get(MODEL_KEY) == model.digest.encode()


def write_reference(
    home: Home, dataset: DatasetRecord, model: FoundModel, unit: Unit, path: Path, nll_nats: np.ndarray | None = None
) -> None:
    """Columns as those of scores, without texts and surprising tokens. nll_nats: of the split, if they are known."""
    config = ScoringConfig(input="-", output="-.parquet", document=unit, keep_text=False, surprising_tokens=0)
    score = model.load(config)
    schema = SCORES_SCHEMA.with_metadata({VERSION_KEY: REFERENCE_VERSION, MODEL_KEY: model.digest.encode()})
    texts, every = validation_texts(home, dataset, model, unit, known=nll_nats is not None)
    known_nll = in_order(nll_nats) if nll_nats is not None and every == 1 else None
    found = (InputDocument(number, "validation", number, None, text) for number, text in enumerate(texts))
    home.make(path.parent)
    with atomic_file(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for shard in in_shards(found, config):
            writer.write_table(score(shard, known_nll).replace_schema_metadata(schema.metadata))


def validation_texts(
    home: Home, dataset: DatasetRecord, model: FoundModel, unit: Unit, *, known: bool = False
) -> tuple[Iterator[str], int]:
    """Lines that are not blank, or whole documents; and n if it is only every n-th of them.

    known: what all of them cost is known, so that no number of bytes is too many.
    """
    corpus = home.corpora / model.origin.corpus_digest[:16]
    with connect(dataset) as connection:
        rows = connection.execute(statement("scoring/read_validation_documents")).fetchall()
    count = sum(row[3] for row in rows) if unit == "line" else len(rows)
    every = 1 if known and count <= REFERENCE_DOCUMENTS else sampled_every(count, sum(row[2] for row in rows))
    found = (read_bytes(corpus / file, offset, size) for file, offset, size, _ in rows)
    texts = (
        text
        for data in found
        for text in (data.decode("utf-8").split("\n") if unit == "line" else [data.decode("utf-8")])
        if text.strip()
    )
    return itertools.islice(texts, 0, None, every), every


def sampled_every(count: int, byte_count: int) -> int:
    """n, so that every n-th of `count` documents is a reference: 1 for all of them."""
    for_bytes = min(-(-byte_count // REFERENCE_BYTES), count // ENOUGH_DOCUMENTS)
    return max(1, -(-count // REFERENCE_DOCUMENTS), for_bytes)


def read_bytes(path: Path, offset: int, size: int) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size)
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}), and holds the validation text that scores are compared with;\n"
            "run rnnlm prepare with that corpus again"
        ) from error
