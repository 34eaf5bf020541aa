"""The current model, exchanged while requests go on: each keeps the one it began with."""

import logging
import threading

from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.serving.model_loader import Followed, LoadedModel, load

logger = logging.getLogger(__name__)


class Keeper:
    """`current` is what new requests take. A thread looks after the alias; the last request frees an old model."""

    def __init__(self, followed: Followed, poll_seconds: float) -> None:
        """Loads the first model. ModelError, TrackingError where that fails."""
        self.followed = followed
        self.poll_seconds = poll_seconds
        self.current: LoadedModel = load(followed.home, followed.label())
        self.swaps = self.failures = 0
        self.problem: str | None = None  # of the last looks: names no path, for /ready is open to all
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rnnlm-keeper", daemon=True)

    def start(self) -> None:
        if self.followed.folder is None:  # a folder stays what it is
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False if nobody follows the alias although somebody should."""
        return self.followed.folder is not None or self._thread.is_alive()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)  # a registry that does not answer keeps nobody from ending

    def look(self) -> bool:
        """Load the model that the alias names now, where that is another. True: it was exchanged."""
        label = self.followed.label()
        if label == self.current.label:
            return False
        new = load(self.followed.home, label)
        logger.warning("%s takes over from %s", label, self.current.label)
        self.current = new  # one assignment: no request sees anything half-done
        self.swaps += 1
        return True

    def _watch(self) -> None:
        failures = 0  # in a row
        while not self._stopped.wait(self.poll_seconds):
            try:
                self.look()
            except Exception as error:  # the registry is away, a version is damaged in any way: this thread goes on
                failures += 1
                self.failures += 1
                self.problem = f"{type(error).__name__} at {failures} looks in a row"
                if isinstance(error, RnnlmError | TrackingError):
                    logger.warning("still serving %s: %s", self.current.label, error)
                else:
                    logger.exception("still serving %s", self.current.label)
            else:
                failures, self.problem = 0, None
