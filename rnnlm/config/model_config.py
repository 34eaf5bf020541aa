"""Settings of the model: kind of layers, sizes and initial weights."""

from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from rnnlm.config.kinds import KINDS, NETWORKS, OWN_KIND, kind_of
from rnnlm.config.section import Section, setting
from rnnlm.errors import close_to

ModelKind = Literal[  # The names in NETWORKS. They are repeated, because type checkers need literals.
    "elman", "feed-forward", "gru", "ind-rnn", "lstm", "min-gru", "min-lstm", "transformer", "xlstm"
]
Nonlinearity = Literal["tanh", "relu", "sigmoid"]
Backend = Literal["fused", "loop"]
RecurrentInitialization = Literal["xavier", "orthogonal", "identity", "leaky", "spread"]
DEFAULT_UNITS = 256
ELMAN_SETTINGS = ("nonlinearity", "recurrence")  # Settings that only an Elman network accepts.


class ModelConfig(Section):
    kind: str = setting(
        "elman",
        f"Kind of the layers: {', '.join(NETWORKS)}, or a custom class as package.module:Class. With kneser-ney, the "
        "model is an n-gram model without a network.",
    )
    hidden_size: int | None = setting(
        None,
        "Number of units per layer. If null, it is chosen to suit training.minutes if that is set, and is "
        f"{DEFAULT_UNITS} otherwise.",
        ge=1,
        le=16_384,
    )
    input: Literal["embedding", "one-hot"] = setting(
        "embedding",
        "Form of the network's input. With `one-hot`, the embedding is the identity matrix and is not trained.",
    )
    embedding_size: int | None = setting(
        None,
        "Number of values in a token's embedding. If null, it is hidden_size, or the vocabulary size for one-hot "
        "input.",
        ge=1,
        le=16_384,
    )
    layers: int = setting(1, "Number of recurrent layers.", ge=1, le=64)
    residual: bool | None = setting(
        None,
        "Whether the layers of an Elman network or an IndRNN have pre-norm residual connections. Each layer then adds "
        "its output divided by the number of layers. If null, there are such connections if there are several layers.",
    )
    nonlinearity: Nonlinearity = setting("tanh", "Activation function of an Elman network.")
    recurrence: Literal["full", "diagonal"] = setting(
        "full",
        "Form of the recurrent matrix U of an Elman network. With `diagonal`, each unit reads only its own previous "
        "state.",
    )
    initialization: Literal["xavier", "he"] = setting(
        "xavier",
        "Distribution of the initial values of all matrices except U and the embedding. xavier: uniform. he: normal * "
        "sqrt(2 / inputs).",
    )
    embedding_initialization: Literal["normal", "xavier"] = setting(
        "normal",
        "Distribution of the initial values of the embedding. normal: standard deviation 0.1. xavier: uniform.",
    )
    recurrent_initialization: RecurrentInitialization = setting(
        "leaky",
        "Initial recurrent matrix U of an Elman network. leaky: the identity times a factor. The factor is 0.9 (less "
        "with more than 256 units), and 0.5 with several layers. spread: a diagonal from 0 to 1.",
    )
    heads: int = setting(4, "Number of heads of a Transformer or an xLSTM.", ge=1, le=256)
    attention_window: int = setting(
        256,
        "Number of tokens to which a Transformer's attention is limited. The size of the Transformer's state is "
        "proportional to this number.",
        ge=1,
        le=16_384,
    )
    tie_embeddings: bool = setting(
        True,
        "Whether to use the embedding as the output matrix, too. If their sizes differ, a projection precedes the "
        "output matrix.",
    )
    head_bias: Literal["zero", "unigram"] = setting(
        "unigram", "Initial values of the output bias. unigram: the log frequencies of tokens in the training split."
    )
    counts: int = setting(
        5,
        "Maximum number of tokens in an n-gram of the n-gram model. The n-grams are counted in the training text. The "
        "probabilities of the n-gram model are mixed with the network's. With 0, the network is used alone.",
        ge=0,
        le=5,
    )
    backend: Backend = setting(
        "fused", "Implementation of the layers. The results are the same. fused: fast kernels. loop: readable Python."
    )

    @property
    def has_network(self) -> bool:
        """False if the model is an n-gram model without a network."""
        return kind_of(self.kind).is_trained

    @property
    def units(self) -> int:
        """The number of units: the value of hidden_size, or its default."""
        return DEFAULT_UNITS if self.hidden_size is None else self.hidden_size

    @property
    def is_residual(self) -> bool:
        return kind_of(self.kind).may_be_residual and self.layers > 1 if self.residual is None else self.residual

    def resolved(self) -> Self:
        return self.model_copy(update={"hidden_size": self.units, "residual": self.is_residual})

    def of_kind(self, kind: str, **changes: Any) -> "ModelConfig":
        """Return the settings for another kind, without the settings that the other kind does not have."""
        left_out = set() if kind == "elman" else set(ELMAN_SETTINGS)
        if not kind_of(kind).may_be_residual:
            left_out.add("residual")
        return ModelConfig(**{**self.model_dump(exclude=left_out), "kind": kind, **changes})

    @field_validator("kind")
    @classmethod
    def check_name(cls, name: str) -> str:
        if name not in KINDS and not OWN_KIND.fullmatch(name):
            expected = f"; expected {', '.join(KINDS)}, or package.module:Class"
            raise ValueError(f"there is no kind of model {name!r}{close_to(name, KINDS) or expected}")
        return name

    @model_validator(mode="after")
    def check_kind(self) -> "ModelConfig":
        for name in ELMAN_SETTINGS:
            if self.kind != "elman" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={getattr(self, name)} needs kind=elman")
        if self.residual is not None and not kind_of(self.kind).may_be_residual:
            kinds = " or ".join(name for name, kind in KINDS.items() if kind.may_be_residual)
            raise ValueError(f"residual={self.residual} needs kind={kinds}")
        units = kind_of(self.kind).units_per_head
        if units and self.units % (units * self.heads):
            step = f"{units} * heads={units * self.heads}" if units > 1 else f"heads={self.heads}"
            raise ValueError(f"hidden_size={self.units} needs to be a multiple of {step}")
        if not self.has_network and not self.counts:
            raise ValueError(
                "kind=kneser-ney needs model.counts from 1 to 5, which is the number of tokens in the longest n-gram"
            )
        return self

    @model_validator(mode="after")
    def check_diagonal(self) -> "ModelConfig":
        if self.recurrence == "diagonal" and self.recurrent_initialization not in ("identity", "leaky", "spread"):
            raise ValueError("recurrence=diagonal needs recurrent_initialization=identity, leaky or spread")
        return self

    @model_validator(mode="after")
    def check_one_hot(self) -> "ModelConfig":
        if self.input == "one-hot" and kind_of(self.kind).units_per_head:
            raise ValueError(f"input=one-hot needs a kind other than {self.kind}")
        if self.input == "one-hot" and (self.tie_embeddings or self.embedding_size is not None):
            raise ValueError("input=one-hot needs tie_embeddings=false and embedding_size=null")
        return self
