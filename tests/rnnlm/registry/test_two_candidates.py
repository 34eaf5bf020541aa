"""Two candidates at once on one store: the champion at the end is the best of them, whatever happens."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from rnnlm.registry import registration
from rnnlm.registry.champion_history import Change
from rnnlm.registry.model_lookup import list_models
from rnnlm.runtime.polling import poll_until
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.rnnlm.registry.contest import NAME, Contest


def run_id(contest: Contest, version: int) -> str:
    with reaching_mlflow(contest.home) as client:
        return str(client.get_model_version(NAME, str(version)).tags["run_id"])


def wait_for(condition: Callable[[], bool]) -> None:
    assert poll_until(condition, 120, every_seconds=0.05)


@pytest.mark.slow
def test_a_worse_candidate_does_not_overtake_a_better_one(
    contest: Contest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    contest.register("poor")
    about_to, go_on, take_over = [], threading.Event(), registration.set_champion

    def held_up(*arguments: Any) -> Change:
        about_to.append(arguments)
        assert go_on.wait(timeout=240)
        return take_over(*arguments)

    def told_to_wait() -> bool:
        return any("waiting for another process" in record.getMessage() for record in caplog.records)

    monkeypatch.setattr(registration, "set_champion", held_up)
    good, fair = (threading.Thread(target=contest.register, args=(quality,)) for quality in ("good", "fair"))
    good.start()
    wait_for(lambda: len(about_to) == 1)
    fair.start()  # better than the champion that there is at this moment
    wait_for(lambda: told_to_wait() or len(about_to) == 2)  # without a lock it would be about to, as well
    go_on.set()
    good.join()
    fair.join()
    aliases = {run_id(contest, version.version): version.aliases for version in list_models(contest.home)}
    assert aliases[contest.run_of("good").run_id] == ("champion",)
    assert aliases[contest.run_of("fair").run_id] == ("challenger",)
