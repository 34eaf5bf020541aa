"""Settings of `rnnlm evaluate --dynamic` and `--cache`; not a stage of the pipeline."""

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveInt

from rnnlm.config import Section


class DynamicConfig(Section):
    """Dynamic evaluation: learn from text after scoring it."""

    rate: NonNegativeFloat = 0.03  # of a gradient step on a segment's mean loss; 0: off
    decay: Annotated[float, Field(ge=0.0, le=1.0)] = 0.01  # share of the way back to the trained weights, each step
    segment_length: PositiveInt = 20  # tokens scored together, then learnt from
    scaled: bool = False  # scale each weight's rate and decay by its gradients on the training text


class CacheConfig(Section):
    """The neural cache."""

    size: PositiveInt = 500  # most recent tokens in the cache
    theta: NonNegativeFloat = 0.3  # weight of similarity between states; 0: all states count the same
    share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.15  # of the cache in the mixture with the model
