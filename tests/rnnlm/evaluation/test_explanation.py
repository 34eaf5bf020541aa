"""An explained text: the shifted pairs, what evaluation says of them, and the state's course."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlm.config import CorpusConfig, ModelKind, SequencesConfig
from rnnlm.display.plots import new_figure
from rnnlm.evaluation.explanation import Explanation, explain
from rnnlm.evaluation.explanation_plot import draw_explanation, draw_states
from rnnlm.evaluation.external_corpus import score_corpus
from rnnlm.home import Home
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.reports.explanation_page import explanation_text
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, UNK, load_tokenizer
from tests.configs import KINDS, random_model

TEXT = "the cat sees the zebra near\nthe river .\n"


def explained(folder: Path, text: str, cut: SequencesConfig | None = None) -> Explanation:
    cut = cut or read_training_provenance(folder).cut
    return explain(load_model(folder), load_tokenizer(folder), cut, text)


@pytest.mark.parametrize("kind", ["sentence", "stream"])
def test_explained_losses_equal_those_of_evaluate(
    home: Home, toy_run: RunRecord, stream_folder: Path, tmp_path: Path, kind: str
) -> None:
    """Evaluation takes another way: a stored dataset, batches, the split's sums."""
    folder = stream_folder if kind == "stream" else toy_run.model_folder
    source = tmp_path / "text.txt"
    source.write_text(TEXT, encoding="utf-8")
    score = score_corpus(home, folder, CorpusConfig(source=str(source)))
    explanation = explained(folder, TEXT)
    assert score.tokens == len(explanation.steps)
    assert explanation.loss.perplexity == pytest.approx(score.perplexity, rel=1e-6)
    assert explanation.loss.bits_per_byte == pytest.approx(score.bits_per_byte, rel=1e-6)
    mean = sum(step.nll_nats for step in explanation.steps) / len(explanation.steps)
    assert mean == pytest.approx(score.nll_nats_per_token, rel=1e-6)


def test_each_step_reads_a_token_and_predicts_the_next(toy_run: RunRecord) -> None:
    steps = explained(toy_run.model_folder, TEXT).steps
    assert [step.target_text for step in steps] == [
        *("the", "cat", "sees", "the", "zebra", "near", "<eos>"),
        *("the", "river", ".", "<eos>"),
    ]
    assert [step.input_text for step in steps] == [
        *("<bos>", "the", "cat", "sees", "the", "zebra", "near"),
        *("<bos>", "the", "river", "."),
    ]
    assert [step.starts_row for step in steps] == [True, *[False] * 6, True, *[False] * 3]
    ids = [step.target_id for step in steps]
    assert [step.input_id for step in steps] == [BOS, *ids[:6], BOS, *ids[7:10]]
    assert (ids[4], ids[6], ids[10]) == (UNK, EOS, EOS)
    assert TEXT[steps[4].start : steps[4].end] == "zebra"


def test_a_stream_continues_after_the_end_of_a_line(stream_folder: Path) -> None:
    steps = explained(stream_folder, TEXT).steps
    assert (steps[7].input_text, steps[7].target_text) == ("<eos>", "the")
    assert [step.starts_row for step in steps] == [True, *[False] * 10]


def test_a_cut_row_continues_after_the_token_before_it(toy_run: RunRecord) -> None:
    steps = explained(toy_run.model_folder, "the cat sees the dog", SequencesConfig(context_length=2)).steps
    assert [step.starts_row for step in steps] == [True, False] * 3
    assert [step.input_text for step in steps] == ["<bos>", "the", "cat", "sees", "the", "dog"]


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_of_every_kind_equal_one_forward_pass(stream_folder: Path, kind: ModelKind) -> None:
    """Read token by token, beside one pass over the row. The head reads the last output, or a residual sum."""
    tokenizer = load_tokenizer(stream_folder)
    model = random_model(kind, tokenizer.vocabulary_size)
    explanation = explain(model, tokenizer, SequencesConfig(mode="stream"), TEXT)
    steps = explanation.steps
    targets = [step.target_id for step in steps]
    assert [step.input_id for step in steps] == [BOS, *targets[:-1]]
    with torch.no_grad():
        logits, _ = model(torch.tensor([[BOS, *targets[:-1]]]))
        outputs = torch.from_numpy(explanation.states)
        top = outputs[:, 0]
        for layer in range(1, outputs.shape[1]):
            top = model.stack.layer_output(layer, top, outputs[:, layer])
        torch.testing.assert_close(model.logits(model.stack.output_norm(top)), logits[0], atol=1e-4, rtol=1e-4)
    for step, row in zip(steps, logits[0], strict=True):
        assert step.nll_nats == pytest.approx(-float(row.log_softmax(dim=0)[step.target_id]), rel=1e-4)
        assert row.argsort(descending=True)[step.rank - 1] == step.target_id
        assert [share for _, share in step.alternatives] == pytest.approx(row.softmax(dim=0).topk(5).values, rel=1e-3)


def test_an_unknown_word_costs_its_bytes_and_its_end(toy_run: RunRecord) -> None:
    explanation = explained(toy_run.model_folder, "the zebra é")
    costs = {step.target_text: step.spelling_bits for step in explanation.steps}
    assert costs == {"the": 0.0, "zebra": 8 * 6, "é": 8 * 3, "<eos>": 0.0}
    assert [step.target_text for step in explanation.steps if step.is_unknown] == ["zebra", "é"]
    # Each gap and each end of the line has a small price too.
    tokens = explanation.loss.summed_nll_nats / math.log(2)
    whole = explanation.loss.bits_per_byte * len("the zebra é\n".encode())
    assert whole == pytest.approx(tokens + 72, abs=0.2)


@pytest.mark.parametrize("text", ["", "\n", "  "])
def test_a_text_without_tokens_has_no_steps(toy_run: RunRecord, text: str) -> None:
    explanation = explained(toy_run.model_folder, text)
    assert explanation.steps == ()
    assert explanation.states.shape == (0, 1, 16)
    assert explanation_text(explanation) == "nothing to predict in this text"


def test_half_a_surrogate_pair_is_read_as_an_unknown_character(toy_run: RunRecord) -> None:
    assert [step.target_text for step in explained(toy_run.model_folder, "the \ud800").steps][1] == "\ufffd"


def test_the_picture_shows_every_unit_at_every_step(stream_folder: Path, tmp_path: Path) -> None:
    explanation = explained(stream_folder, TEXT)
    _, (axes,) = new_figure((4, 3))
    shown = np.asarray(draw_states(axes, explanation).get_array())
    assert shown.shape == (2 * 16, 11)
    np.testing.assert_array_equal(shown[:16, 3], explanation.states[3, 0])  # layer 1 at the bottom
    np.testing.assert_array_equal(shown[16:, 3], explanation.states[3, 1])
    draw_explanation(explanation, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_long_text_with_dollar_signs_can_be_drawn(toy_run: RunRecord, tmp_path: Path) -> None:
    explanation = explained(toy_run.model_folder, "the $x_{1$ cat \x1b[0m " * 60)
    draw_explanation(explanation, tmp_path / "long.png")
    assert (tmp_path / "long.png").stat().st_size > 10_000


def test_the_table_fits_80_columns_and_escapes_control_characters(toy_run: RunRecord) -> None:
    table = explanation_text(explained(toy_run.model_folder, f"the {'antidis' * 9} \x1b[31mred cat\n{TEXT}"))
    assert max(map(len, table.splitlines())) <= 80
    assert "\x1b" not in table
    assert "antidisanti… 1*" in table
    assert "to spell them costs" in table
