"""The page at `/`, used in headless Chromium: with the keyboard, with the mouse, without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rnnlm.serving.browser import CHROMIUM, Browser
from tests.rnnlm.serving.live import LiveServer, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
TOKEN = "a token of the test's own"
GENERATED = "#generate .text"
SCORED = "#score .text"


@pytest.fixture(scope="module")
def live(toy_model: Path) -> Iterator[LiveServer]:
    with serving(toy_model) as live:
        yield live


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def browser(started: Browser, live: LiveServer) -> Iterator[Browser]:
    """At the page; afterwards it has complained of nothing and asked for nothing from elsewhere."""
    started.complaints.clear()
    started.requested.clear()
    started.open(live.address)
    started.until("document.querySelector('#model').textContent !== '…'")
    yield started
    assert started.complaints == []
    assert all(url.startswith((live.address, "data:")) for url in started.requested)


def text_of(browser: Browser, selector: str) -> str:
    return str(browser.value(f"document.querySelector('{selector}').textContent"))


def generate_by_keyboard(browser: Browser, prompt: str) -> None:
    browser.value("document.querySelector('#prompt').focus()")
    browser.type(prompt)
    browser.press("Enter", modifiers=2)
    browser.until("document.querySelector('#generate .token') && document.querySelector('.stop').disabled")


def test_a_prompt_is_continued_token_by_token(browser: Browser, live: LiveServer) -> None:
    generate_by_keyboard(browser, "the cat")
    request = {"prompt": "the cat", "maximum_tokens": 40, "temperature": 0.8, "top_p": 0.95, "top_k": 0, "seed": 0}
    expected = live.client.post("/generate", json=request).json()
    assert text_of(browser, GENERATED).removesuffix("∎") == f"the cat {expected['text']}"
    surprises = browser.value(
        "[...document.querySelectorAll('#generate .token')].map(t => +t.style.getPropertyValue('--surprise'))"
    )
    bits = [token["surprisal_nats"] / 0.6931471805599453 for token in expected["tokens"]]
    assert surprises == pytest.approx([min(1.0, one / 12) for one in bits], abs=1e-4)
    first = browser.value("getComputedStyle(document.querySelector('#generate .token')).backgroundColor")
    assert first not in ("rgba(0, 0, 0, 0)", "transparent")  # it is shaded


def test_pointing_at_a_token_shows_what_was_expected(browser: Browser) -> None:
    generate_by_keyboard(browser, "the dog sees")
    browser.point_at("#generate .token")
    browser.until("document.querySelectorAll('.details tr').length === 5")
    assert "bits: probability" in text_of(browser, ".details")


def test_the_keyboard_reaches_every_token(browser: Browser) -> None:
    generate_by_keyboard(browser, "the bird")
    for _ in range(12):  # the controls, then the text: one stop
        browser.press("Tab")
        if browser.value("document.activeElement.classList.contains('token')"):
            break
    place = "[...document.querySelectorAll('#generate .token')].indexOf(document.activeElement)"
    assert browser.value(place) == 0
    browser.press("ArrowRight")
    assert browser.value(place) == 1
    assert browser.value("document.activeElement.classList.contains('chosen')")
    browser.press("End")
    assert browser.value(place) == browser.value("document.querySelectorAll('#generate .token').length") - 1
    browser.press("Home")
    browser.press("ArrowLeft")  # nothing there
    assert browser.value(place) == 0


def test_a_text_is_scored_in_the_second_tab(browser: Browser, live: LiveServer) -> None:
    browser.value("document.querySelector('#tab-generate').focus()")
    browser.press("ArrowRight")
    assert browser.value("document.activeElement.id") == "tab-score"
    assert browser.value("document.querySelector('#generate').hidden && !document.querySelector('#score').hidden")
    browser.value("document.querySelector('#scored').focus()")
    source = "the cat sees  the <b>zebra</b> 🦊 .\nthe dog"
    browser.type(source)
    browser.press("Enter", modifiers=2)
    browser.until(f"document.querySelector('{SCORED} .token')")
    scored = live.client.post("/score", json={"text": source}).json()
    assert text_of(browser, SCORED) == source.replace("\n", "↵\n") + "∎"
    assert browser.value(f"document.querySelectorAll('{SCORED} .token').length") == len(scored["tokens"])
    assert browser.value("document.querySelectorAll('#score b').length") == 5  # figures: no markup from the text
    assert f"perplexity {scored['perplexity']:.2f}" in text_of(browser, ".figures")


def test_what_went_wrong_is_told(browser: Browser) -> None:
    browser.value("document.querySelector('#generate input[name=top_k]').removeAttribute('max')")
    browser.value("document.querySelector('#generate input[name=top_k]').value = 3e9")
    browser.value("document.querySelector('#generate form').requestSubmit()")
    browser.until("!document.querySelector('#problem').hidden")
    assert "top_k: Input should be less than" in text_of(browser, "#problem")
    browser.complaints.clear()  # Chromium's own line for the status 422


def test_an_unknown_word_is_told(browser: Browser) -> None:
    generate_by_keyboard(browser, "the zebra")
    assert "read as <unk>: zebra" in text_of(browser, "#problem")
    assert browser.value("document.querySelector('#problem').className") == "note"  # nothing is wrong
    browser.value("document.querySelector('#tab-score').click()")
    browser.value("document.querySelector('#scored').focus()")
    browser.type("the zebra")
    browser.press("Enter", modifiers=2)
    browser.until(f"document.querySelector('{SCORED} .token')")
    assert browser.value(f"[...document.querySelectorAll('{SCORED} .unknown')].map(t => t.textContent)") == ["zebra"]
    browser.point_at(f"{SCORED} .unknown")
    browser.until("document.querySelectorAll('.details tr').length === 5")
    assert "as <unk>: the word is not in the vocabulary" in text_of(browser, ".details p")


def test_the_other_tab_shows_nothing_of_this_one(browser: Browser) -> None:
    generate_by_keyboard(browser, "the zebra")
    browser.point_at("#generate .token")
    browser.until("document.querySelectorAll('.details tr').length === 5")
    browser.value("document.querySelector('#tab-score').click()")
    assert browser.value("document.querySelector('#problem').hidden")
    assert "Select a token" in text_of(browser, ".details")
    assert browser.value("document.querySelector('.chosen')") is None


def test_light_and_dark_follow_the_system(browser: Browser) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.colours("dark")
    dark = browser.value(paper)
    browser.colours("light")
    assert (dark, browser.value(paper)) == ("rgb(22, 25, 28)", "rgb(255, 255, 255)")


def test_the_token_is_asked_for_and_used(started: Browser, toy_model: Path) -> None:
    with serving(toy_model, token=TOKEN) as guarded:
        started.open(guarded.address)
        started.value("document.querySelector('#generate form').requestSubmit()")
        started.until("!document.querySelector('#login').hidden")
        started.value("document.querySelector('#token').focus()")
        started.type(TOKEN)
        started.press("Enter")
        started.until("document.querySelector('#login').hidden")
        started.value("document.querySelector('#generate form').requestSubmit()")
        started.until("document.querySelector('#generate .token')")
