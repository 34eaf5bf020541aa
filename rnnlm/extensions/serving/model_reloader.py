"""Reload the model when its alias moves, while requests continue with the model they started with."""

import logging
import threading

from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.extensions.serving.model_loader import LoadedModel, ModelReference, load_served_model

logger = logging.getLogger(__name__)


class ModelReloader:
    """`current` is the model for new requests. A thread checks the alias; the last request frees an old model."""

    def __init__(self, reference: ModelReference, poll_seconds: float) -> None:
        """Load the first model. ModelError or TrackingError if that fails."""
        self.reference = reference
        self.poll_seconds = poll_seconds
        self.current: LoadedModel = load_served_model(reference.home, reference.label())
        self.swaps = self.failures = 0
        self.problem: str | None = None  # of the last checks; names no path, because /ready is public
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rnnlm-reloader", daemon=True)

    def start(self) -> None:
        if self.reference.folder is None:  # a folder does not change
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return False if the thread should be checking the alias but has died."""
        return self.reference.folder is not None or self._thread.is_alive()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)  # do not wait for a registry that does not answer

    def check(self) -> bool:
        """Load the model that the alias names now, if it is a different one. Returns whether it is."""
        label = self.reference.label()
        if label == self.current.label:
            return False
        new = load_served_model(self.reference.home, label)
        logger.warning("serving %s instead of %s", label, self.current.label)
        self.current = new  # one assignment: no request sees a partial change
        self.swaps += 1
        return True

    def _watch(self) -> None:
        failures = 0  # in a row
        while not self._stopped.wait(self.poll_seconds):
            try:
                self.check()
            except Exception as error:  # registry unavailable, version damaged: the thread must continue
                failures += 1
                self.failures += 1
                self.problem = f"{type(error).__name__} in {failures} checks in a row"
                if isinstance(error, RnnlmError | TrackingError):
                    logger.warning("still serving %s: %s", self.current.label, error)
                else:
                    logger.exception("still serving %s", self.current.label)
            else:
                failures, self.problem = 0, None
