"""A link to MLflow's pages is shown if something answers there."""

import socket

import pytest

from rnnlm.home import Home
from rnnlm.tracking.mlflow_runs import ui_address, ui_answers


def test_links_to_the_home_lead_somewhere_or_are_not_shown(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("MLFLOW_PORT", str(listener.getsockname()[1]))
        assert ui_answers(home)
    assert not ui_answers(home)


def test_a_server_that_was_named_is_linked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNLM_MLFLOW_UI_URL", "https://mlflow.example.org/")
    assert ui_answers(home)
    assert ui_address(home) == "https://mlflow.example.org"
