"""Bounds that several settings share."""

from typing import Annotated

from pydantic import AfterValidator, Field

LOWEST_TEMPERATURE = 0.01  # Smallest non-zero temperature; anything lower overflows float32.


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
