"""Load another model when the alias moves to another version, while running requests continue with the old model."""

import logging
import threading

from rnnlm.errors import RnnlmError, TrackingError
from rnnlm.extensions.serving.model_loader import LoadedModel, ModelReference, load_served_model

logger = logging.getLogger(__name__)


class ModelReloader:
    """A holder of the current model for new requests, with a thread that watches the alias.

    An old model is freed when its last request ends.
    """

    def __init__(self, reference: ModelReference, poll_seconds: float) -> None:
        """Load the first model. Raise ModelError or TrackingError if that fails."""
        self.reference = reference
        self.poll_seconds = poll_seconds
        self.current: LoadedModel = load_served_model(reference.home, reference.label())
        self.swaps = self.failures = 0
        # The message of the last failed check, or None. It must not contain paths, because /ready is public.
        self.problem: str | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rnnlm-reloader", daemon=True)

    def start(self) -> None:
        # A model in a folder does not change, so no thread is needed.
        if self.reference.folder is None:
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        """False if the thread that watches the alias has ended unexpectedly."""
        return self.reference.folder is not None or self._thread.is_alive()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            # The wait is limited, because the thread may be waiting for a registry that does not respond.
            self._thread.join(timeout=5)

    def check(self) -> bool:
        """Load the model with the alias if the alias has moved to another version. Return True if it has moved."""
        label = self.reference.label()
        if label == self.current.label:
            return False
        new = load_served_model(self.reference.home, label)
        logger.warning("serving %s instead of %s", label, self.current.label)
        self.current = new  # A single assignment gives each request either the old or the new model.
        self.swaps += 1
        return True

    def _watch(self) -> None:
        failures = 0  # The number of successive failed checks.
        while not self._stopped.wait(self.poll_seconds):
            try:
                self.check()
            # The thread must continue even if the registry is unavailable or the version is damaged.
            except Exception as error:
                failures += 1
                self.failures += 1
                self.problem = f"{type(error).__name__} in {failures} checks in a row"
                if isinstance(error, RnnlmError | TrackingError):
                    logger.warning("still serving %s: %s", self.current.label, error)
                else:
                    logger.exception("still serving %s", self.current.label)
            else:
                failures, self.problem = 0, None
