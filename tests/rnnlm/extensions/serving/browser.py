"""Headless Chromium, controlled through the DevTools protocol, with which tests use the service's page."""

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from tests.rnnlm.extensions.serving.live_server import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--window-size=1080,1000",
    "--remote-debugging-port=0",  # With port 0, the browser chooses a free port.
)


class Browser:
    """A browser with one page. `complaints` contains the errors of the page's console and the failed requests."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        self.process = subprocess.Popen(
            [CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        written = folder / "DevToolsActivePort"
        wait_until(lambda: written.exists() and "\n" in written.read_text(), 60)
        port = written.read_text().splitlines()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            [page] = [target for target in json.load(answer) if target["type"] == "page"]
        self.socket = connect(page["webSocketDebuggerUrl"], max_size=None, proxy=None)
        self.numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requested: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.socket.close()
        os.killpg(self.process.pid, signal.SIGKILL)  # End the browser together with its children.
        self.process.wait()

    def call(self, method: str, **parameters: object) -> Any:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.note(message)

    def note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"])[:500])
        if event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])
        if event["method"] == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 20) -> None:
        wait_until(lambda: bool(self.value(expression)), seconds, expression)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key. The modifier 2 is Ctrl, and 8 is Shift."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}
        text = {"text": "\r"} if key == "Enter" and not modifiers else {}
        shared = {"key": key, "code": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **shared, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def point_at(self, selector: str) -> None:
        """Move the mouse onto the first element that the selector matches.

        The move is repeated until the element is under the pointer. Chromium drops mouse events before a new page's
        first frame, and the layout may still change.
        """
        element = f"document.querySelector({json.dumps(selector)})"

        def moved() -> bool:
            x, y = self.value(
                f"(() => {{ const r = {element}.getBoundingClientRect();"
                " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
            )
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
            return bool(self.value(f"{element}.matches(':hover')"))

        wait_until(moved, 20, f"the pointer is on {selector}")

    def colours(self, scheme: str) -> None:
        """Set the page's colour scheme to light or dark. On a user's machine, the operating system sets it."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
