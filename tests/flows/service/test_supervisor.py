"""Parts of `rnnlm up` that need no server. test_up.py starts the servers."""

from flows.service.supervisor import Supervisor
from rnnlm.storage.home import Home


def test_a_log_that_cannot_be_written_does_not_end_it(home: Home) -> None:
    """The servers continue and the console shows the line if the log cannot be written, as on a full disk."""
    shown: list[str] = []
    supervisor = Supervisor(home, 4200, 5000, shown.append)
    (home.root / "logs" / "up.log").mkdir(parents=True)  # A folder in place of the log file makes writing fail.
    supervisor.say("starting prefect")
    assert shown == ["up       starting prefect"]
