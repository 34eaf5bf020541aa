"""Count evaluations since the best one: for early stopping and for the plateau schedule."""

from typing import Any


class Patience:
    """Exhausted after `limit` evaluations in a row without a new lowest value; limit None: never."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.best: float | None = None
        self.waited = 0  # evaluations since the best one or the last restart

    def observe(self, value: float) -> None:
        if self.best is None or value < self.best:
            self.best, self.waited = value, 0
        else:
            self.waited += 1

    @property
    def exhausted(self) -> bool:
        return self.limit is not None and self.waited >= self.limit

    def restart(self) -> None:
        """Count again from 0; the best value stays."""
        self.waited = 0

    def state_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]
