"""A copy of a model's weights at the validation with the lowest perplexity so far."""

import math

from torch import Tensor

from rnnlm.models.language_model import LanguageModel


class BestWeights:
    """A copy on the CPU of the model's weights at the validation with the lowest perplexity so far.

    The weights and the perplexity are None before the first validation.
    """

    def __init__(self) -> None:
        self.perplexity: float | None = None
        self.weights: dict[str, Tensor] | None = None

    def observe(self, perplexity: float, model: LanguageModel) -> None:
        """Copy the model's weights if the perplexity is finite and the lowest so far."""
        if math.isfinite(perplexity) and (self.perplexity is None or perplexity < self.perplexity):
            self.perplexity = perplexity
            weights = model.state_dict().items()
            self.weights = {name: value.detach().to("cpu", copy=True) for name, value in weights}

    def found(self) -> tuple[dict[str, Tensor], float]:
        """Return the best weights and their perplexity. There must have been a validation with a finite perplexity."""
        assert self.weights is not None
        assert self.perplexity is not None
        return self.weights, self.perplexity
