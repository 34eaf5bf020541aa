"""The service stops its work for a disconnected client, and limits the time for every other client."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rnnlm.extensions.serving import text_scorer
from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.extensions.serving.request_batcher import BusyError
from rnnlm.models.language_model import LanguageModel
from tests.rnnlm.extensions.serving.live_server import LiveServer, serving, wait_until


def leave(live: LiveServer, path: str, body: str) -> socket.socket:
    """Return the connection of a client that has sent a request. Closing it disconnects the client."""
    client = socket.create_connection(("127.0.0.1", live.port))
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return client


def before_each_check(monkeypatch: pytest.MonkeyPatch, wait: Callable[[], None]) -> None:
    """Call `wait` before each window of a scored text, and before the check that precedes each window."""
    interruptible = text_scorer.interruptible

    def slower(model: LanguageModel, check: Callable[[], None]) -> LanguageModel:
        def wait_then_check() -> None:
            wait()
            check()

        return interruptible(model, wait_then_check)

    monkeypatch.setattr(text_scorer, "interruptible", slower)


def test_prompts_of_clients_that_left_give_their_places_back(endless_model: Path) -> None:
    with serving(endless_model, maximum_running=2, maximum_waiting=20) as live:
        batcher = live.service.batcher
        hold, step = threading.Event(), batcher._step
        batcher._step = lambda: (hold.wait(60), step())[1]  # type: ignore[method-assign]
        clients = [leave(live, "/generate", '{"maximum_tokens": 2000}') for _ in range(10)]
        wait_until(lambda: len(batcher.running) + len(batcher.waiting) == 10)
        for client in clients:
            client.close()
        wait_until(lambda: all(one.over for one in (*batcher.running, *batcher.waiting)))
        steps = batcher.steps
        hold.set()
        answer = live.client.post("/generate", json={"maximum_tokens": 3})
        assert answer.status_code == 200
        # Each of the two running prompts takes at most one more step, and the new prompt takes three. The sixth step is
        # a margin.
        assert batcher.steps - steps <= 6
        wait_until(lambda: not batcher.running and not batcher.waiting)


def test_texts_of_clients_that_left_are_not_scored(toy_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        hold.wait(60)

    before_each_check(monkeypatch, wait)
    with serving(toy_model) as live:
        clients = [leave(live, "/score", '{"text": "the cat"}') for _ in range(10)]
        wait_until(lambda: begun.is_set() and live.service.texts_waiting == 9)
        for client in clients:
            client.close()
        wait_until(lambda: live.service.texts_waiting == 0)
        hold.set()
        assert live.client.post("/score", json={"text": "the cat"}).status_code == 200
        assert live.service.texts_scored == 1


@pytest.mark.long
def test_scoring_ends_with_its_time(toy_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_each_check(monkeypatch, lambda: time.sleep(2.1))
    with serving(toy_model, maximum_seconds=2) as live:
        answer = live.client.post("/score", json={"text": "the cat"})
        assert answer.status_code == 503
        assert "not scored within 2 s" in answer.json()["detail"]


def test_a_check_ends_the_work_and_changes_no_figure(loaded: LoadedModel) -> None:
    text = "the cat sees the dog .\nthe fox"
    assert text_scorer.score_text(loaded, text, 2, lambda: None) == text_scorer.score_text(loaded, text, 2)

    def refuse() -> None:
        raise BusyError("enough")

    with pytest.raises(BusyError, match="enough"):
        text_scorer.score_text(loaded, text, 2, refuse)
