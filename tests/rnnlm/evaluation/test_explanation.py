"""The explanation of a text has pairs of input and target tokens, the states, and the losses of the evaluation."""

from pathlib import Path

import numpy as np
import pytest

from rnnlm.config import CorpusConfig, SequencesConfig
from rnnlm.display.plots import new_figure
from rnnlm.evaluation.explanation import Explanation, explain
from rnnlm.evaluation.explanation_plot import draw_explanation, draw_states
from rnnlm.evaluation.external_corpus import score_corpus
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.reports.explanation_page import explanation_text
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

TEXT = "the cat sees the zebra near\nthe river .\n"


def explained(folder: Path, text: str, cut: SequencesConfig | None = None) -> Explanation:
    cut = cut or read_training_provenance(folder).cut
    return explain(load_model(folder), load_tokenizer(folder), cut, text)


@pytest.mark.parametrize("kind", ["sentence", "stream"])
def test_explained_losses_equal_those_of_evaluate(
    home: Home, toy_run: RunRecord, stream_folder: Path, tmp_path: Path, kind: str
) -> None:
    """The losses in an explanation equal those of the evaluation.

    The evaluation computes the losses differently, from a stored dataset and in batches.
    """
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


@pytest.mark.parametrize("text", ["", "\n", "  "])
def test_a_text_without_tokens_has_no_steps(toy_run: RunRecord, text: str) -> None:
    explanation = explained(toy_run.model_folder, text)
    assert explanation.steps == ()
    assert explanation.states.shape == (0, 1, 16)
    assert explanation_text(explanation) == "nothing to predict in this text"


def test_the_picture_shows_every_unit_at_every_step(stream_folder: Path, tmp_path: Path) -> None:
    explanation = explained(stream_folder, TEXT)
    _, (axes,) = new_figure((4, 3))
    shown = np.asarray(draw_states(axes, explanation).get_array())
    assert shown.shape == (2 * 16, 11)
    # The lowest layer is at the bottom of the picture.
    np.testing.assert_array_equal(shown[:16, 3], explanation.states[3, 0])
    np.testing.assert_array_equal(shown[16:, 3], explanation.states[3, 1])
    draw_explanation(explanation, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_long_text_with_dollar_signs_can_be_drawn(toy_run: RunRecord, tmp_path: Path) -> None:
    explanation = explained(toy_run.model_folder, "the $x_{1$ cat \x1b[0m " * 60)
    draw_explanation(explanation, tmp_path / "long.png")
    assert (tmp_path / "long.png").stat().st_size > 10_000
