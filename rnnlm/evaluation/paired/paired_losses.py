"""The loss of each document under each of two models: a Parquet file with one row per document and model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, read_texts
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

PAIRED_LOSSES_SCHEMA = pa.schema(
    [
        ("role", pa.string()),  # candidate or champion
        ("document_id", pa.int64()),  # in the candidate's dataset
        ("sha256", pa.string()),
        ("byte_count", pa.int64()),  # UTF-8, line ends included
        ("tokens", pa.int64()),  # predicted
        ("nll_nats", pa.float64()),  # of the tokens, summed
        ("restoration_bits", pa.float64()),  # what restores the text from its tokens
        ("total_nats", pa.float64()),  # both
    ]
)


@dataclass(frozen=True)
class Contestant:
    """A model with its tokenizer and the way it cuts text."""

    model: LanguageModel
    tokenizer: TextTokenizer
    cut: SequencesConfig


def load_contestant(folder: Path, device: str = "cpu") -> Contestant:
    """From a model's folder. ModelError if it is incomplete or damaged."""
    return Contestant(load_model(folder, device), load_tokenizer(folder), read_training_provenance(folder).cut)


def write_paired_losses(
    contestants: dict[str, Contestant], documents: list[HoldoutDocument], corpus_folder: Path, path: Path
) -> None:
    """Write a file of PAIRED_LOSSES_SCHEMA; contestants: role → model. Each document is scored from state zero."""
    with pq.ParquetWriter(path, PAIRED_LOSSES_SCHEMA, compression="zstd") as writer:
        for texts in read_texts(corpus_folder, documents):
            for role, contestant in contestants.items():
                writer.write_table(pa.Table.from_pylist(loss_rows(role, contestant, texts), PAIRED_LOSSES_SCHEMA))


def loss_rows(role: str, contestant: Contestant, texts: list[tuple[HoldoutDocument, str]]) -> list[dict[str, Any]]:
    losses = document_losses(contestant.model, contestant.tokenizer, [text for _, text in texts], contestant.cut)
    return [
        {
            "role": role,
            "document_id": document.document_id,
            "sha256": document.sha256,
            "byte_count": document.byte_count,
            "tokens": loss.tokens,
            "nll_nats": loss.summed_nll_nats,
            "restoration_bits": loss.restoration_bits,
            "total_nats": loss.total_nats,
        }
        for (document, _), loss in zip(texts, losses, strict=True)
    ]
