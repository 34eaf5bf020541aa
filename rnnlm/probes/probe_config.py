"""Options of `rnnlm probe`."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from rnnlm.config import Nonlinearity, RecurrentInitialization, Section, Seed, setting

INITIALIZATIONS: tuple[RecurrentInitialization, ...] = ("xavier", "orthogonal", "identity")  # compared


class GradientProbeConfig(Section):
    hidden_size: int = setting(128, "Number of units per layer.", ge=1, le=4_096)
    layers: int = setting(1, "Number of recurrent layers.", ge=1, le=16)
    steps: int = setting(60, "Largest number of steps back; sentences may be shorter.", ge=1, le=10_000)
    rows: int = setting(64, "Number of windows of validation text.", ge=1, le=4_096)
    factor: PositiveFloat = setting(1.2, "Factor of the scaled identity.")
    trained_steps: NonNegativeInt = setting(0, "Optimizer steps before a second measurement. 0: none.")
    batch_size: PositiveInt = setting(32, "Number of sequences or lanes per step.")
    learning_rate: PositiveFloat = setting(4e-3, "Learning rate.")
    seed: Seed = setting(0, "Seed of initial weights and batches.")


class EchoConfig(Section):
    distances: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = setting(
        (1, 2, 5, 10, 20, 40), "Steps from the symbol to the cue."
    )
    nonlinearities: tuple[Nonlinearity, ...] = setting(("tanh", "relu"), "Activation functions to compare.")
    initializations: tuple[RecurrentInitialization, ...] = setting(
        INITIALIZATIONS, "Initial recurrent matrices to compare."
    )
    symbols: int = setting(8, "Number of symbols.", ge=2, le=1_000)
    hidden_size: int = setting(64, "Number of units.", ge=1, le=4_096)
    training_steps: PositiveInt = setting(500, "Number of optimizer steps.")
    batch_size: PositiveInt = setting(64, "Number of rows per step.")
    learning_rate: PositiveFloat = setting(1e-3, "Learning rate.")
    seed: Seed = setting(0, "Seed of initial weights and rows.")
