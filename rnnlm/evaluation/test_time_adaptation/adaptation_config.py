"""What `rnnlm evaluate --dynamic` and `--cache` take; no stage of the pipeline."""

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveInt

from rnnlm.config import Section


class DynamicConfig(Section):
    """Dynamic evaluation: learning from the text that is being scored."""

    rate: NonNegativeFloat = 0.03  # of a gradient step on the mean loss of a segment; 0: learn nothing
    decay: Annotated[float, Field(ge=0.0, le=1.0)] = 0.01  # share of the way back to the trained weights, a step
    segment_length: PositiveInt = 20  # tokens scored together, then learnt from
    scaled: bool = False  # each weight's rate and decay by its gradients on the training text; else the same for all


class CacheConfig(Section):
    """The neural cache."""

    size: PositiveInt = 500  # tokens before the one predicted that it remembers
    theta: NonNegativeFloat = 0.3  # how much more a similar state counts; 0: all the same
    share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.15  # of the mixture; the rest is the model's
