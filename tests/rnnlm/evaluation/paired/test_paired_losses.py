"""Two models with different vocabularies and modes are compared on the same raw documents."""

import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rnnlm.config import SequencesConfig
from rnnlm.corpora.line_digests import line_digest
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.evaluation.paired.holdout_documents import find_compared_lines, holdout_documents
from rnnlm.evaluation.paired.paired_losses import load_contestant, write_paired_losses
from rnnlm.evaluation.paired.seen_text import write_seen_text
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.dataset_reader import training_counts
from rnnlm.storage.home import read_json, write_json
from rnnlm.training.train import write_model
from tests.configs import plain_model
from tests.rnnlm.evaluation.paired.conftest import VALID, StoredDocuments


@pytest.fixture
def folder(stored_documents: StoredDocuments, tmp_path: Path) -> Path:
    return new_model(stored_documents, tmp_path / "model", seed=0)


def new_model(stored_documents: StoredDocuments, folder: Path, seed: int) -> Path:
    counts = training_counts(stored_documents.dataset)
    write_model(build_model(plain_model({"hidden_size": 4}), len(counts), seed), folder, stored_documents.dataset)
    return folder


def compare(stored_documents: StoredDocuments, candidate: Path, champion: Path, folder: Path) -> Path:
    seen, losses = folder / "seen.parquet", folder / "losses.parquet"
    write_seen_text(stored_documents.dataset, seen)
    contestants = {"candidate": load_contestant(candidate), "champion": load_contestant(champion)}
    documents = find_compared_lines(
        stored_documents.corpus_folder, holdout_documents(stored_documents.dataset, [seen]), None
    )
    write_paired_losses(contestants, documents, stored_documents.corpus_folder, losses)
    return losses


def test_each_compared_line_has_its_loss_within_its_document(
    stored_documents: StoredDocuments, folder: Path, tmp_path: Path
) -> None:
    champion = new_model(stored_documents, tmp_path / "other", seed=1)
    facts = read_json(champion / "rnnlm.json")
    # Let the champion read blank lines, too, as in stream mode.
    write_json(champion / "rnnlm.json", facts | {"mode": "stream"})
    rows = pq.read_table(compare(stored_documents, folder, champion, tmp_path)).to_pylist()
    assert [(row["role"], row["line"]) for row in rows] == [("candidate", 0)] * 2 + [("champion", 0)] * 2
    for role, model, cut in (
        ("candidate", folder, SequencesConfig()),
        ("champion", champion, SequencesConfig(mode="stream")),
    ):
        contestant = load_contestant(model)
        for row, number in zip((row for row in rows if row["role"] == role), (0, 4), strict=True):
            line, tokenizer = VALID[number].strip(), contestant.tokenizer
            (loss,) = document_losses(contestant.model, tokenizer, [VALID[number]], cut)
            tokens = len(tokenizer.encode(line)) + 1  # The line's <eos> is one more token.
            assert row["nll_nats"] == pytest.approx(loss.nll_nats[:tokens].sum(), rel=1e-5)
            assert (row["tokens"], row["byte_count"]) == (tokens, len(line) + 1)
            assert row["digest"] == line_digest(line.encode())
    zebra = [row for row in rows if row["role"] == "candidate"][1]
    # `runs` and `zebra` are not in the training split, so each of their bytes costs 8 bits, and so does the end of
    # each.
    assert zebra["restoration_bits"] >= 8 * (len("runs") + len("zebra") + 2)
    assert zebra["total_nats"] == pytest.approx(zebra["nll_nats"] + zebra["restoration_bits"] * math.log(2))


def test_the_same_models_give_the_same_file(stored_documents: StoredDocuments, folder: Path, tmp_path: Path) -> None:
    once = compare(stored_documents, folder, folder, tmp_path).read_bytes()
    assert compare(stored_documents, folder, folder, tmp_path).read_bytes() == once
