"""Settings of `rnnlm evaluate --dynamic` and `--cache`, which are not part of the pipeline's configuration."""

from typing import Annotated

from pydantic import Field

from rnnlm.config import Section
from rnnlm.config.bounds import NonNegativeFloat, Size


class DynamicConfig(Section):
    """Settings of dynamic evaluation, in which the model learns from the text that it scores."""

    rate: NonNegativeFloat = Field(
        0.03, description="Learning rate of the step after each segment. With 0, the model does not learn."
    )
    decay: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.01, description="Fraction by which the weights move back to the trained weights after each step of learning."
    )
    segment_length: Size = Field(
        20, description="Number of tokens in a segment. The model learns from each segment after scoring it."
    )
    scaled: bool = Field(False, description="Scale each weight's rate and decay by its gradients on the training text.")


class CacheConfig(Section):
    """Settings of the neural cache."""

    size: Size = Field(500, description="Number of preceding tokens in the cache.")
    theta: NonNegativeFloat = Field(
        0.3,
        description="Factor of the dot product of two hidden states. The larger it is, the more weight similar states "
        "have. With 0, all states have the same weight.",
    )
    share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.15, description="Weight of the cache in the mixture of probabilities."
    )
