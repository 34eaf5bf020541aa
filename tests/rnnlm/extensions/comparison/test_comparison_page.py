"""A comparison lists the differences that are not significant. The HTML page fits on the screen of a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rnnlm.extensions.comparison.comparison_page import (
    comparison_html,
    comparison_report,
    comparison_text,
    seeds_sentence,
)
from rnnlm.extensions.comparison.comparison_plots import draw_comparison
from rnnlm.extensions.comparison.document_bootstrap import PairDifference
from rnnlm.extensions.comparison.model_comparison import ModelComparison
from tests.rnnlm.extensions.comparison.test_model_result import result_of
from tests.rnnlm.extensions.serving.browser import CHROMIUM, Browser

PAIR = PairDifference(first="elman", second="lstm", difference=0.1, lower=0.05, upper=0.3, documents=9)


def comparison(folder: Path, *scores: tuple[float, ...], **fields: Any) -> ModelComparison:
    kinds = ("elman", "lstm", "gru")
    models = tuple(result_of(*one).model_copy(update={"model": kind}) for kind, one in zip(kinds, scores, strict=False))
    given = {
        "key": "k",
        "folder": folder,
        "corpus_name": "tinyshakespeare",
        "dataset_id": "d" * 64,
        "settings": {
            "trials": 3,
            "seeds": len(scores[0]) if scores else 2,
            "corpus.source": "/a/path/" + "that/is/long/" * 9,
        },
        "vocabulary_size": 10,
        "test_tokens": 10,
        "models": models,
        "pairs": (),
        "target_perplexity": 9.0,
    }
    return ModelComparison.model_validate(given | fields)


def test_differences_within_the_intervals_over_seeds_are_named(tmp_path: Path) -> None:
    # With two runs, the interval of the mean is ± 12.706 times half of their distance, here 12.706 · 0.1 = 1.27. The
    # intervals around 100 and 102 overlap.
    found = comparison(tmp_path, (99.9, 100.1), (101.9, 102.1), (149.9, 150.1))
    assert (
        seeds_sentence(found)
        == "no difference beyond the variation of training (95 %, over seeds) between Elman and LSTM"
    )
    found = comparison(tmp_path, (99.9, 100.1), (109.9, 110.1))
    assert seeds_sentence(found).startswith("each trained model differs from the next one by more")


def test_single_runs_come_with_a_warning_about_seeds(tmp_path: Path) -> None:
    found = comparison(tmp_path, (100.0,), (101.0,), pairs=(PAIR,))
    found.picture.write_bytes(b"")
    told = "each model was trained once, so a small difference may come from the seed; --seeds 3"
    assert told in " ".join(comparison_text(found).split())
    assert told in comparison_report(found)
    assert "seeds" not in comparison_text(comparison(tmp_path, (100.0,)))


def test_a_warning_of_copied_text_stands_beside_the_scores(tmp_path: Path) -> None:
    warning = "41.0% of the test text also occurs in the training text, line by line"
    found = comparison(tmp_path, (100.0,), (101.0,), pairs=(PAIR,), score_warnings=(warning,))
    found.picture.write_bytes(b"")
    assert warning in " ".join(comparison_text(found).split())
    assert warning in comparison_html(found)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(tmp_path / "chromium")
    yield browser
    browser.close()


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_can_be_read_on_a_phone(tmp_path: Path, browser: Browser) -> None:
    found = comparison(tmp_path, (100.0, 101.0), (101.0, 102.0), pairs=(PAIR,))
    draw_comparison(found, found.picture)
    found.page.write_text(comparison_html(found), encoding="utf-8")
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    browser.open(found.page.as_uri())
    browser.until("document.querySelector('img') !== null && document.querySelector('img').complete")
    # The width shows that the browser has not zoomed out to fit a page that is too wide.
    assert browser.value("window.innerWidth") == 390
    # Wide tables scroll inside the page, and the page itself does not.
    assert browser.value("document.documentElement.scrollWidth") == 390
    # The plots are at least 700 pixels wide, so that their text is legible.
    assert browser.value("document.querySelector('img').clientWidth") >= 700
    assert browser.value("[...document.querySelectorAll('table, p:has(img)')].every(e => e.clientWidth <= 390)")
