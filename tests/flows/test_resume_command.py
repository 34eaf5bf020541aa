"""`rnnlm train --resume RUN` continues an unfinished run, and reports an error for any other run."""

import json

import pytest

from flows.command_line import main
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.storage.stages import is_complete

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.long
def test_an_unfinished_run_is_finished(
    tracked_home: Home, toy_run: RunRecord, capsys: pytest.CaptureFixture[str], prefect_server: None
) -> None:
    (toy_run.folder / "COMPLETE").unlink()
    note = tracked_home.verified / "corpora-one.json"
    note.parent.mkdir(exist_ok=True)
    note.touch()
    assert main(["train", "--resume", toy_run.run_id[:6], "--verify", "--json"]) == 0
    assert not note.exists()
    trained = json.loads(capsys.readouterr().out)
    assert trained["run_id"] == toy_run.run_id
    assert "training" not in trained["skipped"]
    assert is_complete(toy_run.folder)
