"""When more training no longer helps."""

from typing import Any


class EarlyStopping:
    """Says stop when the validation perplexity has not improved for `patience` evaluations; None: never."""

    def __init__(self, patience: int | None = None) -> None:
        self.patience = patience
        self.best: float | None = None
        self.waited = 0  # evaluations since the best

    def observe(self, perplexity: float) -> None:
        if self.best is None or perplexity < self.best:
            self.best, self.waited = perplexity, 0
        else:
            self.waited += 1

    @property
    def says_stop(self) -> bool:
        return self.patience is not None and self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """JSON."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]
