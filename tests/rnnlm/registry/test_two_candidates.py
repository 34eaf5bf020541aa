"""The better of two candidates that are registered at the same time is the champion at the end."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rnnlm.registry import registration
from rnnlm.registry.champion_history import Change
from rnnlm.registry.model_lookup import list_models
from rnnlm.runtime.polling import poll_until
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.rnnlm.registry.contest import NAME, Contest

CANDIDATE = """
import json, sys, time
from pathlib import Path
from rnnlm.config import PipelineConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.registry import registration
from rnnlm.registry.version_tags import Candidate

given = json.loads(Path(sys.argv[1]).read_text())
pause = float(sys.argv[2])
take_over = registration.set_champion

def slowly(*arguments):
    print("about to take over", flush=True)
    time.sleep(pause)
    return take_over(*arguments)

registration.set_champion = slowly
registered = registration.register_model(
    Home(Path(given["home"])),
    Candidate(
        PipelineConfig(**given["config"]), DatasetRecord(**given["dataset"]), RunRecord(**given["run"]),
        EvaluationRecord(**given["evaluation"]), SamplesRecord(**given["samples"]),
    ),
)
print(registered.alias, flush=True)
"""


@contextmanager
def candidate(contest: Contest, quality: str, folder: Path, pause: float) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that registers the model. It waits for `pause` seconds before the model becomes champion."""
    given = {
        "home": str(contest.home.root),
        "config": contest.config.model_dump(mode="json"),
        "dataset": contest.dataset.model_dump(mode="json"),
        "run": contest.run_of(quality).model_dump(mode="json"),
        "evaluation": contest.evaluation.model_dump(mode="json"),
        "samples": contest.samples.model_dump(mode="json"),
    }
    path = folder / f"{quality}.json"
    path.write_text(json.dumps(given))
    command = [sys.executable, "-c", CANDIDATE, str(path), str(pause)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def champion(contest: Contest) -> int:
    return next(version.version for version in list_models(contest.home) if "champion" in version.aliases)


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
    fair.start()  # This candidate is better than the current champion, but worse than the other candidate.
    # Without a lock, both candidates would be about to become champion.
    wait_for(lambda: told_to_wait() or len(about_to) == 2)
    go_on.set()
    good.join()
    fair.join()
    aliases = {run_id(contest, version.version): version.aliases for version in list_models(contest.home)}
    assert aliases[contest.run_of("good").run_id] == ("champion",)
    assert aliases[contest.run_of("fair").run_id] == ("challenger",)


@pytest.mark.slow
def test_two_at_once_leave_the_best_as_champion(contest: Contest, tmp_path: Path) -> None:
    contest.register("poor")
    # Both candidates pause just before they become champion. Without a lock, "fair" could do so last, because it was
    # compared only with "poor".
    with candidate(contest, "fair", tmp_path, 1.0) as fair, candidate(contest, "good", tmp_path, 1.0) as good:
        assert fair.wait(timeout=600) == 0
        assert good.wait(timeout=600) == 0
    assert run_id(contest, champion(contest)) == contest.run_of("good").run_id
    assert len(list_models(contest.home)) == 3


@pytest.mark.slow
def test_one_killed_while_it_holds_the_lock_harms_nobody(contest: Contest, tmp_path: Path) -> None:
    contest.register("poor")
    with candidate(contest, "fair", tmp_path, 600.0) as fair:
        assert fair.stdout is not None
        assert fair.stdout.readline() == "about to take over\n"
        fair.send_signal(signal.SIGKILL)
    assert champion(contest) == 1
    good = contest.register("good")
    assert (good.alias, good.version) == ("champion", 3)
    taken_up = contest.register("fair")  # The killed registration is repeated when there is a better champion.
    assert (taken_up.version, taken_up.alias) == (2, "challenger")
    assert champion(contest) == 3
