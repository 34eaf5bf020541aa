"""A document's score does not depend on other documents. Its surprising tokens are its least probable tokens."""

import math

import numpy as np
import pyarrow as pa
import pytest

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import DocumentLosses, LineLosses, document_losses
from rnnlm.extensions.scoring.document_reader import InputDocument, documents_table
from rnnlm.extensions.scoring.document_scores import SCORES_SCHEMA, Scorer, surprising
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.models.model_factory import load_model
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

TEXTS = ["the cat sees the dog near the river .\n", "the zebra\nthe fox .", "", "the fox", None]


@pytest.fixture
def tokenizer(toy_run: RunRecord) -> TextTokenizer:
    return load_tokenizer(toy_run.model_folder)


@pytest.fixture
def scorer(toy_run: RunRecord, tokenizer: TextTokenizer) -> Scorer:
    model = load_model(toy_run.model_folder)
    return Scorer(model, tokenizer, SequencesConfig(), ScoringConfig(input="-", output="x.parquet"))


def table(scorer: Scorer, texts: list[str | None]) -> pa.Table:
    documents = [InputDocument(number, "here", number, None, text) for number, text in enumerate(texts)]
    return scorer(documents_table(documents))


def test_a_document_costs_what_it_costs_alone(scorer: Scorer, tokenizer: TextTokenizer) -> None:
    found = table(scorer, TEXTS)
    assert found.schema == SCORES_SCHEMA
    for text, row in zip(TEXTS, found.to_pylist(), strict=True):
        whole = (text or "").removesuffix("\n") + "\n"
        (alone,) = document_losses(scorer.model, tokenizer, [whole], scorer.cut)
        assert row["tokens"] == alone.tokens
        assert row["bytes"] == len(whole)
        assert row["log_probability"] == pytest.approx(-alone.summed_nll_nats, rel=1e-5)
        if alone.tokens:
            assert row["perplexity"] == pytest.approx(math.exp(alone.summed_nll_nats / alone.tokens), rel=1e-5)
            assert row["bits_per_byte"] == pytest.approx(alone.total_nats / math.log(2) / len(whole), rel=1e-5)


def test_the_most_surprising_tokens_come_with_their_place_and_their_bits(tokenizer: TextTokenizer) -> None:
    the, cat, dog = tokenizer.encode("the cat dog")
    nats = np.array([1.0, 3.0, 1.0, 2.0], np.float32) * math.log(2)
    ids = np.array([the, cat, dog, the], np.int32)
    nothing = np.zeros(3)
    losses = DocumentLosses(
        summed_nll_nats=nothing,
        tokens=np.array([4, 0, 4]),
        byte_count=nothing,
        unknown_tokens=nothing,
        restoration_bits=nothing,
        token_ids=np.tile(ids, 2),
        nll_nats=np.tile(nats, 2),
        lines=LineLosses(
            counts=nothing, tokens=nothing, nll_nats=nothing, restoration_bits=nothing, byte_count=nothing
        ),
    )
    pieces = pa.array(tokenizer.pieces(range(tokenizer.vocabulary_size)))
    found = surprising(losses, pieces, 3).to_pylist()
    assert found[1] == []
    for tokens in (found[0], found[2]):
        assert [(token["token"], token["place"]) for token in tokens] == [("cat", 1), ("the", 3), ("the", 0)]
        assert [token["bits"] for token in tokens] == pytest.approx([3.0, 2.0, 1.0])
    assert surprising(losses, pieces, 0).to_pylist() == [[], [], []]
