"""Draws docs/images/serve.png: the page with a continuation, as headless Chromium shows it.

python -m tests.rnnlm.serving.picture MODEL docs/images/serve.png "Return the"
"""

import sys
import tempfile
from pathlib import Path

from rnnlm.home import find_home
from rnnlm.serving.model_loader import resolve_reference
from tests.rnnlm.serving.browser import Browser
from tests.rnnlm.serving.live import LiveServer


def draw(model: str, picture: Path, prompt: str, scheme: str = "light") -> None:
    with tempfile.TemporaryDirectory() as folder, LiveServer(resolve_reference(find_home(), model)) as live:
        browser = Browser(Path(folder))
        try:
            browser.colours(scheme)
            browser.open(live.address)
            browser.value("document.querySelector('#prompt').focus()")
            browser.type(prompt)
            browser.value("document.querySelector('input[name=seed]').value = 1")
            browser.press("Enter", modifiers=2)
            browser.until("document.querySelector('#generate .token') && document.querySelector('.stop').disabled")
            browser.value("document.activeElement.blur()")
            browser.point_at("#generate .token:nth-of-type(6)")
            browser.until("document.querySelectorAll('.details tr').length > 0")
            browser.screenshot(picture)
        finally:
            browser.close()


if __name__ == "__main__":
    draw(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *sys.argv[4:5])
