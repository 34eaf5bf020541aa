"""Settings of `rnnlm evaluate --dynamic` and `--cache`. They are not part of the pipeline's configuration."""

from typing import Annotated

from pydantic import Field

from rnnlm.config import Section
from rnnlm.config.bounds import NonNegativeFloat, Size


class DynamicConfig(Section):
    """Settings of dynamic evaluation, in which the model learns from the text that it scores."""

    rate: NonNegativeFloat = Field(0.03, description="Learning rate of the step after each segment; 0: learn nothing.")
    decay: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.01, description="Share of the way back to the trained weights at each step."
    )
    segment_length: Size = Field(20, description="Tokens scored together, then learned from.")
    scaled: bool = Field(False, description="Scale each weight's rate and decay by its gradients on the training text.")


class CacheConfig(Section):
    """Settings of the neural cache."""

    size: Size = Field(500, description="Preceding tokens to remember.")
    theta: NonNegativeFloat = Field(
        0.3, description="How much more a similar hidden state counts; 0: all states count equally."
    )
    share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(0.15, description="The cache's share of the mixture.")
