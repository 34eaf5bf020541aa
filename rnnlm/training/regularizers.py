"""What keeps a model from learning its training text by heart; all of it off unless configured."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from rnnlm.config import TrainingConfig
from rnnlm.models.dropout import Dropout
from rnnlm.training.averaging import WeightAveraging, make_averaging
from rnnlm.training.early_stopping import EarlyStopping

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Regularizers:
    dropout: Dropout = Dropout()
    averaging: WeightAveraging | None = None
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)

    def after_step(self, model: nn.Module, step: int) -> None:
        """step: optimiser steps done."""
        if self.averaging is not None:
            self.averaging.update(model, step)

    @contextmanager
    def evaluated_weights(self, model: nn.Module) -> Iterator[None]:
        """Inside, the model has the weights that are evaluated and kept."""
        if self.averaging is None:
            yield
        else:
            with self.averaging.applied(model):
                yield

    def at_end(self) -> None:
        """Say what was asked for and has not happened: training ended too soon, by its tokens or its patience."""
        if self.averaging is not None and not self.averaging.updates:
            logger.warning(
                "training: nothing was averaged, for it ended before step %d (training.averaging.start_share); "
                "the weights that are kept are its own",
                self.averaging.start_step + 1,
            )

    def state_dict(self) -> dict[str, Any]:
        """Tensors and JSON."""
        averaging = None if self.averaging is None else self.averaging.state_dict()
        return {"averaging": averaging, "early_stopping": self.early_stopping.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.averaging is not None:
            self.averaging.load_state_dict(state["averaging"])
        self.early_stopping.load_state_dict(state["early_stopping"])


def make_regularizers(model: nn.Module, config: TrainingConfig, total_steps: int) -> Regularizers:
    """model: on its device already, where the averaged weights lie beside it."""
    dropout = Dropout(**config.dropout.model_dump())
    averaging = make_averaging(model, config, total_steps)
    return Regularizers(dropout, averaging, EarlyStopping(config.validation.early_stopping_patience))
