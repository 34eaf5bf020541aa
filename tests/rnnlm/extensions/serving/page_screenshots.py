"""Take screenshots of the page for the docs, in headless Chromium: docs/images/serve.png and serve-explain.png.

python -m tests.rnnlm.extensions.serving.page_screenshots MODEL docs/images "Return the" [--width 1080] [--scheme light]
"""

import argparse
import tempfile
from pathlib import Path

from rnnlm.extensions.serving.model_loader import resolve_reference
from rnnlm.storage.home import find_home
from tests.rnnlm.extensions.serving.browser import Browser
from tests.rnnlm.extensions.serving.live_server import LiveServer


def draw_pages(browser: Browser, live: LiveServer, folder: Path, prompt: str) -> None:
    """Take a screenshot of a continuation of `prompt`, and a screenshot of the explanation of the text."""
    browser.open(live.address)
    browser.until("document.querySelector('#about').textContent !== ''")
    browser.value("document.querySelector('#prompt').focus()")
    browser.type(prompt)
    browser.value("document.querySelector('input[name=lock]').click()")
    browser.value("document.querySelector('input[name=seed]').value = 1")
    browser.press("Enter", modifiers=2)
    browser.until("document.querySelector('#generate .token') && document.querySelector('.stop').disabled")
    browser.value("document.activeElement.blur()")
    browser.point_at("#generate .token:nth-of-type(6)")
    browser.until("document.querySelectorAll('.details tr').length > 0")
    draw_whole(browser, folder / "serve.png")
    browser.value("document.querySelector('#drawn button').click()")
    browser.until("document.querySelectorAll('.steps tbody tr').length > 0")
    draw_whole(browser, folder / "serve-explain.png")


def draw_whole(browser: Browser, picture: Path) -> None:
    """Take a screenshot of the whole page, in a window that is as high as the page."""
    width = browser.value("window.innerWidth")
    browser.resize(width, 300)
    browser.resize(width, browser.value("document.documentElement.scrollHeight"))
    browser.screenshot(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("prompt")
    parser.add_argument("--width", type=int, default=1080, help="of the window, in pixels")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile, LiveServer(resolve_reference(find_home(), options.model)) as live:
        browser = Browser(Path(profile))
        try:
            browser.colours(options.scheme)
            browser.resize(options.width, 1000)
            draw_pages(browser, live, options.folder, options.prompt)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
