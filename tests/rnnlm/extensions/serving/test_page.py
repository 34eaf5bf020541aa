"""The page at `/` works in headless Chromium, with the keyboard, with the mouse, and without internet access."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rnnlm.extensions.serving.browser import CHROMIUM, Browser
from tests.rnnlm.extensions.serving.live_server import LiveServer, serving

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
    """Yield a browser that shows the page.

    After the test, assert that the page had no errors and sent no requests to other addresses.
    """
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


def seed_of(browser: Browser) -> int:
    """Return the seed that the page shows below the text."""
    [seed] = re.findall(r"^seed (\d+) · \d+ tokens$", text_of(browser, "#drawn span"))
    assert browser.value("document.querySelector('input[name=seed]').value") == seed
    return int(seed)


def generate_again(browser: Browser) -> None:
    browser.value("document.querySelector('#drawn').hidden = true")
    browser.value("document.querySelector('#generate form').requestSubmit()")
    browser.until("!document.querySelector('#drawn').hidden")


@pytest.mark.long
def test_each_time_is_a_new_text_unless_the_seed_is_locked(browser: Browser) -> None:
    generate_by_keyboard(browser, "the cat")
    seeds, texts = [seed_of(browser)], [text_of(browser, GENERATED)]
    for _ in range(6):
        generate_again(browser)
        seeds.append(seed_of(browser))
        texts.append(text_of(browser, GENERATED))
    assert len(set(seeds)) > 4  # Nearly all of the random seeds, which are below a million, are different.
    assert len(set(texts)) > 1
    browser.value("document.querySelector('input[name=lock]').click()")
    generate_again(browser)
    assert (seed_of(browser), text_of(browser, GENERATED)) == (seeds[-1], texts[-1])
    browser.value("document.querySelector('input[name=lock]').click()")
    browser.value("document.querySelector('input[name=seed]').focus()")
    browser.value("document.querySelector('input[name=seed]').select()")
    browser.type("4")  # The user types a seed. The page must then use it.
    generate_again(browser)
    assert seed_of(browser) == 4


def test_a_text_is_explained_in_the_third_tab(browser: Browser, live: LiveServer) -> None:
    browser.value("document.querySelector('#tab-generate').focus()")
    browser.press("ArrowLeft")  # ArrowLeft moves from the first tab to the last one.
    assert browser.value("document.activeElement.id") == "tab-explain"
    browser.value("document.querySelector('#explained').focus()")
    source = "the cat <i>sees</i> the dog\nthe bird"
    browser.type(source)
    browser.press("Enter", modifiers=2)
    browser.until("document.querySelectorAll('.steps tbody tr').length")
    explained = live.client.post("/explain", json={"text": source, "alternatives": 3}).json()
    rows = browser.value(
        "[...document.querySelectorAll('.steps tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[:2] for row in rows] == [
        [f"{step['input_text']} {step['input_id']}", f"{step['text']} {step['token_id']}"]
        for step in explained["steps"]
    ]
    assert [row[3] for row in rows] == [f"{step['surprisal_nats']:.2f}" for step in explained["steps"]]
    assert [row[4] for row in rows] == [str(step["rank"]) for step in explained["steps"]]
    # The unknown token appears twice: as the predicted token, and as the input token of the next step.
    assert browser.value("document.querySelectorAll('.steps .unknown').length") == 2
    assert f"perplexity {explained['perplexity']:.2f}" in text_of(browser, "#explain .figures")
    assert "8 bits" in text_of(browser, "#problem")
    assert browser.value("document.querySelector('.details').hidden")


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_nothing_is_wider_than_a_phone(browser: Browser, live: LiveServer, path: str) -> None:
    browser.resize(390, 800)
    try:
        browser.open(live.address + path)
        for tab in ("generate", "score", "explain") if path == "/" else ():
            browser.value(f"document.querySelector('#tab-{tab}').click()")
            if tab == "explain":
                browser.value(f"document.querySelector('#explained').value = '{'the cat sees ' * 20}'")
                browser.value("document.querySelector('#explain form').requestSubmit()")
                browser.until("document.querySelectorAll('.steps tbody tr').length")
            assert browser.value("document.documentElement.scrollWidth") == 390
        browser.value("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert browser.value("document.documentElement.scrollWidth") == 390
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_a_prompt_is_continued_token_by_token(browser: Browser, live: LiveServer) -> None:
    generate_by_keyboard(browser, "the cat")
    request = {"prompt": "the cat", "maximum_tokens": 40, "temperature": 0.8, "top_p": 0.95, "top_k": 0}
    request["seed"] = seed_of(browser)
    expected = live.client.post("/generate", json=request).json()
    assert text_of(browser, GENERATED).removesuffix("∎") == f"the cat {expected['text']}"
    surprises = browser.value(
        "[...document.querySelectorAll('#generate .token')].map(t => +t.style.getPropertyValue('--surprise'))"
    )
    bits = [token["surprisal_nats"] / 0.6931471805599453 for token in expected["tokens"]]
    assert surprises == pytest.approx([min(1.0, one / 12) for one in bits], abs=1e-4)
    first = browser.value("getComputedStyle(document.querySelector('#generate .token')).backgroundColor")
    assert first not in ("rgba(0, 0, 0, 0)", "transparent")  # The token has a background colour.


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
    # The five <b> elements show the values, so the text has added no markup.
    assert browser.value("document.querySelectorAll('#score b').length") == 5
    assert f"perplexity {scored['perplexity']:.2f}" in text_of(browser, ".figures")


def test_unknown_words_are_shown(browser: Browser) -> None:
    generate_by_keyboard(browser, "the zebra")
    assert "read as <unk>: zebra" in text_of(browser, "#problem")
    assert "8 bits for each of its bytes" in text_of(browser, "#problem")
    assert browser.value("[...document.querySelectorAll('.prompt .unknown')].map(t => t.textContent)") == ["zebra"]
    assert text_of(browser, "#generate .prompt") == "the zebra"
    # The message is shown as a note rather than as an error.
    assert browser.value("document.querySelector('#problem').className") == "note"
    browser.value("document.querySelector('#tab-score').click()")
    browser.value("document.querySelector('#scored').focus()")
    browser.type("the zebra")
    browser.press("Enter", modifiers=2)
    browser.until(f"document.querySelector('{SCORED} .token')")
    assert browser.value(f"[...document.querySelectorAll('{SCORED} .unknown')].map(t => t.textContent)") == ["zebra"]
    browser.point_at(f"{SCORED} .unknown")
    browser.until("document.querySelectorAll('.details tr').length === 5")
    assert "as <unk>: the word is not in the vocabulary" in text_of(browser, ".details p")


def test_the_login_asks_for_the_token_and_uses_it(started: Browser, toy_model: Path) -> None:
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
        started.until("document.querySelector('#about').textContent.startsWith('Trained on toy')")
