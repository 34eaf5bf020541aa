"""`rnnlm up` without its servers; test_up.py starts them."""

from flows.service.supervisor import Supervisor
from rnnlm.storage.home import Home


def test_a_log_that_cannot_be_written_does_not_end_it(home: Home) -> None:
    """A full disk is such a case: the servers live on, and the console still shows the line."""
    shown: list[str] = []
    supervisor = Supervisor(home, 4200, 5000, shown.append)
    (home.root / "logs" / "up.log").mkdir(parents=True)  # in the place of the file
    supervisor.say("starting prefect")
    assert shown == ["up       starting prefect"]
