"""Options of `rnnlm probe`."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from rnnlm.config import Nonlinearity, RecurrentInitialization, Section, Seed

INITIALIZATIONS: tuple[RecurrentInitialization, ...] = ("xavier", "orthogonal", "identity")  # compared


class GradientProbeConfig(Section):
    hidden_size: int = Field(128, ge=1, le=4_096, description="Number of units per layer.")
    layers: int = Field(1, ge=1, le=16, description="Number of recurrent layers.")
    steps: int = Field(60, ge=1, le=10_000, description="Largest number of steps back; sentences may be shorter.")
    rows: int = Field(64, ge=1, le=4_096, description="Number of windows of validation text.")
    factor: PositiveFloat = Field(1.2, description="Factor of the scaled identity.")
    trained_steps: NonNegativeInt = Field(0, description="Optimizer steps before a second measurement. 0: none.")
    batch_size: PositiveInt = Field(32, description="Number of sequences or lanes per step.")
    learning_rate: PositiveFloat = Field(4e-3, description="Learning rate.")
    seed: Seed = Field(0, description="Seed of initial weights and batches.")


class EchoConfig(Section):
    distances: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = Field(
        (1, 2, 5, 10, 20, 40), description="Steps from the symbol to the cue."
    )
    nonlinearities: tuple[Nonlinearity, ...] = Field(("tanh", "relu"), description="Activation functions to compare.")
    initializations: tuple[RecurrentInitialization, ...] = Field(
        INITIALIZATIONS, description="Initial recurrent matrices to compare."
    )
    symbols: int = Field(8, ge=2, le=1_000, description="Number of symbols.")
    hidden_size: int = Field(64, ge=1, le=4_096, description="Number of units.")
    training_steps: PositiveInt = Field(500, description="Number of optimizer steps.")
    batch_size: PositiveInt = Field(64, description="Number of rows per step.")
    learning_rate: PositiveFloat = Field(1e-3, description="Learning rate.")
    seed: Seed = Field(0, description="Seed of initial weights and rows.")
