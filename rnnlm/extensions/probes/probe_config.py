"""Settings of `rnnlm probe`."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from rnnlm.config import EngineConfig, ModelKind, Nonlinearity, RecurrentInitialization, Section, Seed, setting
from rnnlm.config.bounds import NonNegativeInt, PositiveFloat, PositiveInt, Size

SyntheticTaskName = Literal["parity", "modulo-3", "dyck-2", "copying", "echo", "recall"]
# The number of tokens in a row. It is at most 192, because associative recall has 64 keys and uses at most 3 tokens per
# key.
RowLength = Annotated[int, Field(ge=6, le=192)]
# The initializations that are compared by default.
INITIALIZATIONS: tuple[RecurrentInitialization, ...] = ("xavier", "orthogonal", "identity")


class GradientProbeConfig(Section):
    hidden_size: int = setting(128, "Number of units per layer.", ge=1, le=4_096)
    layers: int = setting(1, "Number of recurrent layers.", ge=1, le=16)
    steps: int = setting(
        60,
        "Maximum number of time steps back from the loss at which gradients are measured. Sentences may be shorter.",
        ge=1,
        le=10_000,
    )
    rows: int = setting(64, "Number of windows of validation text on which gradients are measured.", ge=1, le=4_096)
    factor: PositiveFloat = setting(
        1.2, "Factor by which the identity matrix is multiplied in one of the compared initial recurrent matrices."
    )
    trained_steps: NonNegativeInt = setting(
        0, "Number of optimizer steps before a second measurement. With 0, there is no second measurement."
    )
    batch_size: Size = setting(32, "Number of sequences or lanes per optimizer step.")
    learning_rate: PositiveFloat = setting(4e-3, "Learning rate.")
    seed: Seed = setting(0, "Seed of initial weights and batches.")


class EchoConfig(Section):
    distances: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = setting(
        (1, 2, 5, 10, 20, 40), "Distances between the symbol and the cue, in time steps."
    )
    kinds: tuple[ModelKind, ...] = setting(("elman",), "Kinds of model to compare.", added_later=True, min_length=1)
    nonlinearities: tuple[Nonlinearity, ...] = setting(
        ("tanh", "relu"), "Activation functions of Elman networks to compare."
    )
    initializations: tuple[RecurrentInitialization, ...] = setting(
        INITIALIZATIONS, "Initial recurrent matrices of Elman networks to compare."
    )
    symbols: int = setting(8, "Number of different symbols.", ge=2, le=1_000)
    hidden_size: int = setting(64, "Number of units of each network.", ge=1, le=4_096)
    training_steps: PositiveInt = setting(500, "Number of optimizer steps for each network.")
    batch_size: Size = setting(64, "Number of rows per optimizer step.")
    learning_rate: PositiveFloat = setting(1e-3, "Learning rate.")
    seed: Seed = setting(0, "Seed of initial weights and rows.")


class AbilitiesConfig(EngineConfig):
    kinds: tuple[ModelKind, ...] = setting(get_args(ModelKind), "Kinds of model to compare.", min_length=1)
    diagonal: bool = setting(True, "Whether to also compare Elman networks with a diagonal recurrent matrix.")
    tasks: tuple[SyntheticTaskName, ...] = setting(
        get_args(SyntheticTaskName), "Synthetic tasks that the networks learn.", min_length=1
    )
    trained_length: RowLength = setting(24, "Maximum length of a row in training, in tokens.")
    lengths: tuple[RowLength, ...] = setting(
        (24, 48, 96, 192), "Lengths of the rows in tests, in tokens.", min_length=1
    )
    layers: int = setting(2, "Number of layers of each network.", ge=1, le=16)
    parameters: int = setting(
        40_000,
        "Number of parameters of each network. The number of units is computed from it.",
        ge=1_000,
        le=10_000_000,
    )
    training_steps: PositiveInt = setting(
        4_000, "Maximum number of optimizer steps. Training ends earlier if the task is solved."
    )
    batch_size: Size = setting(64, "Number of rows per optimizer step.")
    learning_rate: PositiveFloat = setting(2e-3, "Learning rate.")
    seeds: Size = setting(3, "Number of runs with different seeds for each kind of network and task.")
