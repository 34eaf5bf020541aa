"""The losses of two models on each compared line, written as a Parquet file with one row per line and model."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, read_texts
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.sequences.segmentation import ends
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

PAIRED_LOSSES_SCHEMA = pa.schema(
    [
        ("role", pa.string()),  # The role of the model, "candidate" or "champion".
        ("document_id", pa.int64()),  # The id of the document in the candidate's dataset.
        ("line", pa.int64()),  # The number of the line in the document, from 0 on.
        ("digest", pa.uint64()),  # The digest of the line; see rnnlm/corpora/line_digests.py.
        ("sha256", pa.string()),  # The sha256 of the document.
        ("byte_count", pa.int64()),  # The number of UTF-8 bytes, including the end of the line.
        ("tokens", pa.int64()),  # The number of predicted tokens.
        ("nll_nats", pa.float64()),  # The loss of the line, which is the sum over its tokens.
        ("restoration_bits", pa.float64()),  # The number of bits needed to restore the text from its tokens.
        # The loss with the bits for restoring the text: nll_nats + restoration_bits * ln(2).
        ("total_nats", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Contestant:
    """A model that is compared, with its tokenizer and the settings by which it splits text into rows."""

    model: LanguageModel
    tokenizer: TextTokenizer
    cut: SequencesConfig


def load_contestant(folder: Path, device: str = "cpu") -> Contestant:
    """Load a model for comparison from its folder. Raise ModelError if it is incomplete or damaged."""
    return Contestant(load_model(folder, device), load_tokenizer(folder), read_training_provenance(folder).cut)


def write_paired_losses(
    contestants: dict[str, Contestant], documents: list[HoldoutDocument], corpus_folder: Path, path: Path
) -> None:
    """Write a Parquet file of PAIRED_LOSSES_SCHEMA.

    `contestants` contains a model for each role. Each model reads a whole document from a zero state. Only the losses
    of the compared lines are written.
    """
    with pq.ParquetWriter(path, PAIRED_LOSSES_SCHEMA, compression="zstd") as writer:
        for texts in read_texts(corpus_folder, documents):
            for role, contestant in contestants.items():
                writer.write_table(line_rows(role, contestant, texts))


def line_rows(role: str, contestant: Contestant, texts: list[tuple[HoldoutDocument, str]]) -> pa.Table:
    """Return one row of the table for each compared line of the texts."""
    documents = [document for document, _ in texts]
    losses = document_losses(contestant.model, contestant.tokenizer, [text for _, text in texts], contestant.cut).lines
    line_numbers = [np.array(document.compared, np.int64) for document in documents]
    counts = [len(numbers) for numbers in line_numbers]
    first_lines = ends(losses.counts)[:-1]
    places = np.concatenate([first + numbers for first, numbers in zip(first_lines, line_numbers, strict=True)])
    restoration_bits, nll_nats = losses.restoration_bits[places], losses.nll_nats[places]
    columns = {
        "role": [role] * len(places),
        "document_id": np.repeat([document.document_id for document in documents], counts),
        "line": np.concatenate(line_numbers),
        "digest": np.concatenate([np.array(document.digests, np.uint64) for document in documents]),
        "sha256": np.repeat([document.sha256 for document in documents], counts),
        "byte_count": losses.byte_count[places],
        "tokens": losses.tokens[places],
        "nll_nats": nll_nats,
        "restoration_bits": restoration_bits,
        "total_nats": nll_nats + restoration_bits * math.log(2),
    }
    return pa.table(columns, schema=PAIRED_LOSSES_SCHEMA)
