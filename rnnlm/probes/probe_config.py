"""What `rnnlm probe` takes; no stage of the pipeline."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from rnnlm.config import Nonlinearity, RecurrentInitialization, Section, Seed

INITIALIZATIONS: tuple[RecurrentInitialization, ...] = ("xavier", "orthogonal", "identity")  # set side by side


class GradientProbeConfig(Section):
    hidden_size: int = Field(128, ge=1, le=4_096)
    layers: int = Field(1, ge=1, le=16)
    steps: int = Field(60, ge=1, le=10_000)  # back from a loss at most; sentences end sooner
    rows: int = Field(64, ge=1, le=4_096)  # windows of validation text
    factor: PositiveFloat = 1.2  # of the scaled identity, which is shown beside the three initialisations
    trained_steps: NonNegativeInt = 0  # optimiser steps before it is measured a second time; 0: not at all
    batch_size: PositiveInt = 32  # of these steps
    learning_rate: PositiveFloat = 4e-3
    seed: Seed = 0


class EchoConfig(Section):
    distances: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = (1, 2, 5, 10, 20, 40)  # steps back from the cue
    nonlinearities: tuple[Nonlinearity, ...] = ("tanh", "relu")
    initializations: tuple[RecurrentInitialization, ...] = INITIALIZATIONS
    symbols: int = Field(8, ge=2, le=1_000)
    hidden_size: int = Field(64, ge=1, le=4_096)
    training_steps: PositiveInt = 500
    batch_size: PositiveInt = 64  # rows a step
    learning_rate: PositiveFloat = 1e-3
    seed: Seed = 0
