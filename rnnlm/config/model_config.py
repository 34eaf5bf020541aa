"""The model: kind of layers, sizes, initial weights."""

from typing import Any, Literal, Self, get_args

from pydantic import model_validator

from rnnlm.config.section import Section, setting

ModelKind = Literal["elman", "gru", "lstm", "min-gru", "min-lstm", "transformer", "xlstm"]
MODEL_NAMES: dict[ModelKind, str] = {kind: kind for kind in get_args(ModelKind)} | {  # one without a name has its kind
    "elman": "Elman network",
    "gru": "GRU",
    "lstm": "LSTM",
    "min-gru": "minGRU",
    "min-lstm": "minLSTM",
    "transformer": "Transformer",
    "xlstm": "xLSTM",
}
Nonlinearity = Literal["tanh", "relu", "sigmoid"]
Backend = Literal["fused", "loop"]
RecurrentInitialization = Literal["xavier", "orthogonal", "identity", "spread"]
WITHOUT_U: tuple[ModelKind, ...] = ("min-gru", "min-lstm", "transformer")  # no matrix multiplies their state
ELMAN_SETTINGS = ("residual", "nonlinearity", "recurrence")  # other kinds refuse them


class ModelConfig(Section):
    kind: ModelKind = setting("elman", "Kind of the layers.")
    hidden_size: int = setting(256, "Number of units per layer.", ge=1, le=16_384)
    input: Literal["embedding", "one-hot"] = setting(
        "embedding", "one-hot: the embedding is the identity matrix and is not trained."
    )
    embedding_size: int | None = setting(
        None, "Size of token embeddings. null: hidden_size, or the vocabulary if one-hot.", ge=1, le=16_384
    )
    layers: int = setting(1, "Number of recurrent layers.", ge=1, le=64)
    residual: bool | None = setting(
        None,
        "Pre-norm residual connections between layers of an Elman network. null: if there are several.",
    )
    nonlinearity: Nonlinearity = setting("tanh", "Activation function of an Elman network.")
    recurrence: Literal["full", "diagonal"] = setting(
        "full", "Recurrent matrix U of an Elman network. diagonal: each unit reads only its own previous state."
    )
    initialization: Literal["xavier", "he"] = setting(
        "xavier", "Initial matrices but U and the embedding. xavier: uniform. he: normal * sqrt(2 / inputs)."
    )
    embedding_initialization: Literal["normal", "xavier"] = setting(
        "normal", "Initial embedding. normal: standard deviation 0.1. xavier: uniform."
    )
    recurrent_initialization: RecurrentInitialization | None = setting(
        None,
        "Initial recurrent matrix U of an Elman network. spread: a diagonal from 0 to 1. null: identity for one layer "
        "or a diagonal, orthogonal for several layers.",
    )
    heads: int = setting(4, "Number of heads of a Transformer or an xLSTM.", ge=1, le=256)
    attention_window: int = setting(
        256, "Number of tokens that a Transformer's attention reaches back; its state grows with it.", ge=1, le=16_384
    )
    tie_embeddings: bool = setting(
        True, "Share the output matrix with the embedding; if sizes differ, a projection precedes it."
    )
    head_bias: Literal["zero", "unigram"] = setting(
        "unigram", "Initial output bias. unigram: log frequencies of the training split."
    )
    counts: int = setting(
        5,
        "Tokens in the longest n-gram of a count-based model of the training text, whose probabilities are mixed with "
        "the network's. 0: the network alone.",
        ge=0,
        le=5,
    )
    backend: Backend = setting(
        "fused", "Implementation of the same function. fused: fast kernels. loop: readable Python."
    )

    @property
    def is_residual(self) -> bool:
        return self.kind == "elman" and self.layers > 1 if self.residual is None else self.residual

    @property
    def initial_recurrence(self) -> RecurrentInitialization:
        """From the identity, tanh units of stacked layers saturate and learn nothing (benchmarks/stacks.py)."""
        if self.recurrent_initialization is not None:
            return self.recurrent_initialization
        return "identity" if self.layers == 1 or self.recurrence == "diagonal" else "orthogonal"

    def resolved(self) -> Self:
        chosen = {"residual": self.is_residual, "recurrent_initialization": self.initial_recurrence}
        return self.model_copy(update=chosen)

    def of_kind(self, kind: ModelKind, **changes: Any) -> "ModelConfig":
        """The same for another kind, without the settings that only an Elman network has."""
        kept = self.model_dump(exclude=set() if kind == "elman" else set(ELMAN_SETTINGS))
        return ModelConfig(**{**kept, "kind": kind, **changes})

    @model_validator(mode="after")
    def check_kind(self) -> "ModelConfig":
        for name in ELMAN_SETTINGS:
            if self.kind != "elman" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={getattr(self, name)} needs kind=elman")
        if self.kind == "transformer" and self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size={self.hidden_size} needs to be a multiple of 2 * heads={2 * self.heads}")
        if self.kind == "xlstm" and self.hidden_size % self.heads:
            raise ValueError(f"hidden_size={self.hidden_size} needs to be a multiple of heads={self.heads}")
        return self

    @model_validator(mode="after")
    def check_diagonal(self) -> "ModelConfig":
        if self.recurrence == "diagonal" and self.initial_recurrence not in ("identity", "spread"):
            raise ValueError("recurrence=diagonal needs recurrent_initialization=identity or spread")
        return self

    @model_validator(mode="after")
    def check_one_hot(self) -> "ModelConfig":
        if self.input == "one-hot" and self.kind in ("transformer", "xlstm"):
            raise ValueError(f"input=one-hot needs another kind than {self.kind}")
        if self.input == "one-hot" and (self.tie_embeddings or self.embedding_size is not None):
            raise ValueError("input=one-hot needs tie_embeddings=false and embedding_size=null")
        return self
