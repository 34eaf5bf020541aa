"""Bounds that several settings share."""

from typing import Annotated

from pydantic import AfterValidator, Field

# The smallest temperature other than 0. Logits that are divided by a smaller temperature might overflow float32.
LOWEST_TEMPERATURE = 0.01
# The largest number of bytes, tokens, steps or documents. It exceeds the capacity of every disk, and fits into an
# int64.
LARGEST_COUNT = 10**15
LARGEST_SIZE = 1 << 20  # The upper bound of settings that determine how much memory or how many processes are used.
LARGEST_FLOAT = 1e9  # The upper bound of settings in seconds, which is 31 years.


def check_temperature(temperature: float) -> float:
    if 0 < temperature < LOWEST_TEMPERATURE:
        raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}")
    return temperature


# The bounds of settings for sampling, in the configuration and in the service. registry/served_model.py repeats these
# bounds, because it must not import this package.
MaximumTokens = Annotated[int, Field(ge=1, le=100_000)]
Temperature = Annotated[float, Field(ge=0.0, le=100.0), AfterValidator(check_temperature)]
TopK = Annotated[int, Field(ge=0, lt=2**31)]
TopP = Annotated[float, Field(ge=1e-6, le=1.0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]

# Numbers without a natural limit. A number above LARGEST_COUNT might cause a library to raise an unclear error, or a
# computation that never ends.
PositiveInt = Annotated[int, Field(gt=0, le=LARGEST_COUNT)]
NonNegativeInt = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
PositiveFloat = Annotated[float, Field(gt=0, le=LARGEST_FLOAT)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=LARGEST_FLOAT)]
Size = Annotated[int, Field(gt=0, le=LARGEST_SIZE)]
