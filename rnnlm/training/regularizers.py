"""Dropout, weight averaging and early stopping of a training run."""

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from rnnlm.config import TrainingConfig
from rnnlm.models.dropout import Dropout
from rnnlm.training.averaging import WeightAveraging, make_averaging
from rnnlm.training.patience import Patience

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Regularizers:
    dropout: Dropout = Dropout()
    averaging: WeightAveraging | None = None
    early_stopping: Patience = field(default_factory=Patience)  # counts validation perplexities

    def after_step(self, model: nn.Module, step: int) -> None:
        """step: optimizer steps done."""
        if self.averaging is not None:
            self.averaging.update(model, step)

    def evaluated_weights(self, model: nn.Module) -> AbstractContextManager[None]:
        """Inside, the model has the weights that are evaluated and saved."""
        return nullcontext() if self.averaging is None else self.averaging.applied(model)

    def warn_at_end(self) -> None:
        if self.averaging is not None and not self.averaging.updates:
            logger.warning(
                "training: no weights were averaged, because training ended before step %d "
                "(training.averaging.start_share); the trained weights are saved",
                self.averaging.start_step + 1,
            )

    def state_dict(self) -> dict[str, Any]:
        """Tensors and JSON values."""
        averaging = None if self.averaging is None else self.averaging.state_dict()
        return {"averaging": averaging, "early_stopping": self.early_stopping.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.averaging is not None:
            self.averaging.load_state_dict(state["averaging"])
        self.early_stopping.load_state_dict(state["early_stopping"])


def make_regularizers(model: nn.Module, config: TrainingConfig, total_steps: int) -> Regularizers:
    """model: already on its device, where the averaged weights are allocated."""
    return Regularizers(
        Dropout(**config.dropout.resolved().model_dump()),
        make_averaging(model, config.averaging, total_steps),
        Patience(config.validation.early_stopping_patience),
    )
