"""Bounds that several settings share."""

from typing import Annotated

from pydantic import AfterValidator, Field

LOWEST_TEMPERATURE = 0.01  # Smallest non-zero temperature; anything lower overflows float32.
LARGEST_COUNT = 10**15  # of bytes, tokens, steps, documents: more than any disk holds, and less than an int64
LARGEST_SIZE = 1 << 20  # of what takes memory or processes
LARGEST_FLOAT = 1e9  # of seconds: 31 years


def check_temperature(temperature: float) -> float:
    if 0 < temperature < LOWEST_TEMPERATURE:
        raise ValueError(f"temperature must be 0 (greedy) or at least {LOWEST_TEMPERATURE}")
    return temperature


# Sampling bounds, shared by the configuration and the service. registry/served_model.py repeats them because it must
# not import this package.
MaximumTokens = Annotated[int, Field(ge=1, le=100_000)]
Temperature = Annotated[float, Field(ge=0.0, le=100.0), AfterValidator(check_temperature)]
TopK = Annotated[int, Field(ge=0, lt=2**31)]
TopP = Annotated[float, Field(ge=1e-6, le=1.0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]

# Numbers with no natural largest value: beyond these a library fails with a message of its own, or never ends.
PositiveInt = Annotated[int, Field(gt=0, le=LARGEST_COUNT)]
NonNegativeInt = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
PositiveFloat = Annotated[float, Field(gt=0, le=LARGEST_FLOAT)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=LARGEST_FLOAT)]
Size = Annotated[int, Field(gt=0, le=LARGEST_SIZE)]
