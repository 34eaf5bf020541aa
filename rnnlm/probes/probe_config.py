"""Options of `rnnlm probe`; not a stage of the pipeline."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from rnnlm.config import Nonlinearity, RecurrentInitialization, Section, Seed

INITIALIZATIONS: tuple[RecurrentInitialization, ...] = ("xavier", "orthogonal", "identity")  # set side by side


class GradientProbeConfig(Section):
    hidden_size: int = Field(128, ge=1, le=4_096, description="units per layer")
    layers: int = Field(1, ge=1, le=16, description="recurrent layers")
    steps: int = Field(60, ge=1, le=10_000, description="steps back from the loss, at most; sentences end sooner")
    rows: int = Field(64, ge=1, le=4_096, description="windows of validation text")
    factor: PositiveFloat = Field(1.2, description="factor of the scaled identity shown beside the initializations")
    trained_steps: NonNegativeInt = Field(
        0, description="optimizer steps before a second measurement; 0: measure untrained networks only"
    )
    batch_size: PositiveInt = Field(32, description="rows per optimizer step")
    learning_rate: PositiveFloat = Field(4e-3, description="learning rate of these steps")
    seed: Seed = Field(0, description="random seed of weights and batches")


class EchoConfig(Section):
    distances: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = Field(
        (1, 2, 5, 10, 20, 40), description="steps between symbol and cue"
    )
    nonlinearities: tuple[Nonlinearity, ...] = Field(("tanh", "relu"), description="nonlinearities to compare")
    initializations: tuple[RecurrentInitialization, ...] = Field(
        INITIALIZATIONS, description="recurrent initializations to compare"
    )
    symbols: int = Field(8, ge=2, le=1_000, description="symbols to tell apart")
    hidden_size: int = Field(64, ge=1, le=4_096, description="units")
    training_steps: PositiveInt = Field(500, description="optimizer steps per network")
    batch_size: PositiveInt = Field(64, description="rows per optimizer step")
    learning_rate: PositiveFloat = Field(1e-3, description="learning rate of these steps")
    seed: Seed = Field(0, description="random seed of weights and rows")
