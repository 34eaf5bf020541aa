"""The bootstrap computes the difference of two models on the same documents, and whether it is significant."""

import numpy as np
import pytest

from rnnlm.evaluation.baselines import split_facts
from rnnlm.extensions.comparison.document_bootstrap import pair_differences, read_documents
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.storage.records import DatasetRecord

BYTES = np.full(400, 100)


def test_documents_hold_every_token_and_byte_of_the_split_once(toy_dataset: DatasetRecord) -> None:
    documents, facts = read_documents(toy_dataset, "test"), split_facts(toy_dataset, "test")
    assert documents.first_tokens.tolist() == [0, *documents.last_tokens[:-1].tolist()]
    assert documents.last_tokens[-1] == facts.predicted_tokens
    assert documents.byte_counts.sum() == facts.byte_count
    nll = np.ones(facts.predicted_tokens, np.float32)
    whole = facts.predicted_tokens + facts.restoration_bits * NATS_PER_BIT
    assert documents.total_nats(nll).sum() == pytest.approx(whole)


def test_a_constant_difference_is_found_exactly() -> None:
    noise = np.random.default_rng(0).normal(200, 20, 400)
    (pair,) = pair_differences({"one": noise + 100 * NATS_PER_BIT, "two": noise}, BYTES)
    assert (pair.first, pair.second, pair.documents) == ("one", "two", 400)
    assert pair.difference == pytest.approx(1.0)
    assert pair.is_clear


def test_the_interval_is_that_of_the_mean() -> None:
    """For documents of equal size, the 95 % interval of the difference is ± 1.96 standard errors."""
    generator = np.random.default_rng(1)
    excess = generator.normal(0, 50, 400)
    (pair,) = pair_differences({"one": 1_000 + excess, "two": np.full(400, 1_000.0)}, BYTES)
    error = excess.std() / 20 / 100 / NATS_PER_BIT
    assert pair.upper - pair.lower == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert not pair.is_clear


def test_one_document_gives_no_clear_difference() -> None:
    (pair,) = pair_differences({"one": np.array([5.0]), "two": np.array([1.0])}, np.array([10]))
    assert pair.difference == pytest.approx(0.4 / NATS_PER_BIT)
    assert not pair.is_clear
