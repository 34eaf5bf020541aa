"""The current model, exchanged while requests go on: each keeps the one it began with."""

import logging
import threading

from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.serving.loading import Followed, LoadedModel, load

logger = logging.getLogger(__name__)


class Keeper:
    """`current` is what new requests take. A thread looks after the alias; the last request frees an old model."""

    def __init__(self, followed: Followed, poll_seconds: float) -> None:
        """Loads the first model. ModelError, TrackingError where that fails."""
        self.followed = followed
        self.poll_seconds = poll_seconds
        self.current: LoadedModel = load(followed.home, followed.label())
        self.swaps = self.failures = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rnnlm-keeper", daemon=True)

    def start(self) -> None:
        if self.followed.folder is None:  # a folder stays what it is
            self._thread.start()

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
        while not self._stopped.wait(self.poll_seconds):
            try:
                self.look()
            except (RnnlmError, TrackingError) as error:  # the registry is away, say: what is loaded still answers
                self.failures += 1
                logger.warning("still serving %s: %s", self.current.label, error)
