"""Scores agree with the evaluation, and contain each token's position. Explanations contain a part of the state."""

import copy
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from rnnlm.config import SequencesConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.extensions.serving.messages import ExplainRequest, ScoreRequest
from rnnlm.extensions.serving.model_loader import LoadedModel, load_served_model
from rnnlm.extensions.serving.request_batcher import BusyError
from rnnlm.extensions.serving.text_scorer import explain_text, predicted_tokens, score_ids, score_request, score_text
from rnnlm.models.ensemble import joined
from rnnlm.storage.home import Home
from rnnlm.tokenizers.text_tokenizer import BOS, EOS
from tests.reference_log_probabilities import log_probabilities_of

TEXTS = [
    "the cat sees the dog near the river .\nthe bird likes the fox near the tree .\n",
    "the fox",
    "",
    "\n",
    "the  zebra é sees\n\nthe dog .",
]
CUTS = [SequencesConfig(), SequencesConfig(context_length=3), SequencesConfig(mode="stream")]


class TimeLimit:
    """A check that ends the computation by raising BusyError at its call number `last`."""

    def __init__(self, last: int, message: str = "out of time") -> None:
        self.last, self.message, self.checks = last, message, 0

    def __call__(self) -> None:
        self.checks += 1
        if self.checks == self.last:
            raise BusyError(self.message)


@pytest.fixture(params=CUTS, ids=["sentence", "short rows", "stream"])
def cut_model(request: pytest.FixtureRequest, loaded: LoadedModel) -> LoadedModel:
    return dataclasses.replace(loaded, cut=request.param)


@pytest.mark.parametrize("text", TEXTS)
def test_figures_are_those_of_the_evaluation(cut_model: LoadedModel, text: str) -> None:
    scored = score_text(cut_model, text)
    (loss,) = document_losses(cut_model.model, cut_model.tokenizer, [text], cut_model.cut)
    assert scored.log_probability_nats == -loss.summed_nll_nats
    assert scored.perplexity == (loss.perplexity if loss.tokens else None)
    assert scored.bits_per_byte == (loss.bits_per_byte if loss.byte_count else None)
    assert [token.surprisal_nats for token in scored.tokens] == loss.nll_nats.tolist()
    assert (scored.byte_count, scored.unknown_tokens) == (loss.byte_count, loss.unknown_tokens)
    # If the text does not end with a line feed, the byte of an additional line feed is counted.
    last_end = bool(loss.tokens) and not text.endswith("\n")
    assert loss.byte_count == len(text.encode()) + last_end
    json.loads(scored.model_dump_json())


def test_more_alternatives_than_tokens_are_all_tokens(cut_model: LoadedModel) -> None:
    """All tokens are returned if more alternatives are requested than the vocabulary has tokens."""
    everything = cut_model.tokenizer.vocabulary_size
    for count in (everything + 1, everything):
        assert all(len(one.top) == everything for one in predicted_tokens(cut_model, "the cat", count))
        assert score_ids(cut_model, [5, 6], count, lambda: None)[0].top[:-1]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_once_and_scored_alike_with_alternatives(cut_model: LoadedModel, text: str) -> None:
    plain = score_text(cut_model, text)
    model, read = copy.copy(cut_model.model), 0

    def hidden(token_ids: Tensor, state: Tensor | None = None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        nonlocal read
        read += token_ids.numel()
        return cut_model.model.hidden(token_ids, state, mask)

    model.hidden = hidden  # type: ignore[method-assign]
    scored = score_text(dataclasses.replace(cut_model, model=model), text, 3)
    assert read == len(scored.tokens)
    assert scored.byte_count == plain.byte_count
    assert [one.token_id for one in scored.tokens] == [one.token_id for one in plain.tokens]
    losses = [one.surprisal_nats for one in scored.tokens]
    assert losses == pytest.approx([one.surprisal_nats for one in plain.tokens], abs=1e-4)


def test_alternatives_are_the_likeliest_of_a_slow_reading(cut_model: LoadedModel) -> None:
    text = "the cat sees the dog\nthe fox"
    scored = score_text(cut_model, text, 4)
    lines = [[*cut_model.tokenizer.encode(line), EOS] for line in text.split("\n")]
    if cut_model.cut.mode == "stream":
        rows = [[BOS, *lines[0], *lines[1]]]
    else:
        length = cut_model.cut.context_length
        whole = [[BOS, *line] for line in lines]
        rows = [row[first : first + length + 1] for row in whole for first in range(0, len(row) - 1, length)]
    expected = []
    for row in rows:
        expected += [row.topk(4) for row in log_probabilities_of(cut_model.model, row[:-1]).exp()]
    for token, likeliest in zip(scored.tokens, expected, strict=True):
        named = [alternative.text for alternative in token.alternatives]
        assert named == [cut_model.tokenizer.pieces([int(one)])[0] for one in likeliest.indices]
        assert [a.probability for a in token.alternatives] == pytest.approx(likeliest.values.tolist(), abs=1e-5)


def test_an_error_names_the_text_that_ran_out_of_time(cut_model: LoadedModel) -> None:
    request = ScoreRequest(text=["the fox"] * 4)
    with pytest.raises(BusyError, match=r"^text 2 of 4: not scored within 60 s$"):
        score_request(cut_model, request, TimeLimit(3, "not scored within 60 s"))


def test_a_folder_without_its_facts_is_refused(toy_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(toy_model, tmp_path / "model")
    (folder / "rnnlm.json").unlink()
    with pytest.raises(ModelError, match="rnnlm.json"):
        load_served_model(Home(tmp_path), str(folder))


def test_the_work_ends_before_the_next_step(loaded: LoadedModel) -> None:
    limit = TimeLimit(3)
    with pytest.raises(BusyError, match="out of time"):
        explain_text(loaded, ExplainRequest(text="the cat sees the dog near the house"), limit)
    assert limit.checks == 3


def test_an_ensemble_of_one_network_twice_scores_like_it_and_is_interrupted(loaded: LoadedModel) -> None:
    network = loaded.model
    ensemble = joined([network, network], np.array([0.5, 0.5]))
    ensemble.mixture = network.mixture
    both = dataclasses.replace(loaded, model=ensemble)
    text = "the cat sees the dog near the river ."
    alone, together = (score_text(one, text, alternatives=3) for one in (loaded, both))
    assert together.log_probability_nats == pytest.approx(alone.log_probability_nats, rel=1e-5)
    with pytest.raises(BusyError, match="out of time"):
        score_text(both, text, check=TimeLimit(2))
