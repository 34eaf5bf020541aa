"""Parts of `rnnlm up` that need no server. test_up.py starts the servers."""

from flows.service.supervisor import Supervisor
from rnnlm.storage.home import Home


def test_a_log_that_cannot_be_written_does_not_end_it(home: Home) -> None:
    """The servers continue if the log cannot be written, for instance on a full disk. The console shows the line."""
    shown: list[str] = []
    supervisor = Supervisor(home, 4200, 5000, shown.append)
    (home.root / "logs" / "up.log").mkdir(parents=True)  # A folder has the name of the log, so it cannot be written.
    supervisor.say("starting prefect")
    assert shown == ["up       starting prefect"]
