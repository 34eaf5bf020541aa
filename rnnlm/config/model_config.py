"""The recurrent network."""

from typing import Literal

from pydantic import model_validator

from rnnlm.config.section import Section, setting

Nonlinearity = Literal["tanh", "relu"]
Backend = Literal["fused", "loop"]
RecurrentInitialization = Literal["xavier", "orthogonal", "identity", "spread"]


class ModelConfig(Section):
    hidden_size: int = setting(256, "Number of units per layer.", ge=1, le=16_384)
    input: Literal["embedding", "one-hot"] = setting(
        "embedding", "one-hot: the embedding is the identity matrix and is not trained."
    )
    embedding_size: int | None = setting(
        None, "Size of token embeddings. null: hidden_size, or the vocabulary if one-hot.", ge=1, le=16_384
    )
    layers: int = setting(1, "Number of recurrent layers.", ge=1, le=64)
    residual: bool = setting(False, "Pre-norm residual connections between layers; no effect with one layer.")
    nonlinearity: Nonlinearity = setting("tanh", "Activation function of the recurrent layers.")
    recurrence: Literal["full", "diagonal"] = setting(
        "full", "Recurrent matrix U. diagonal: each unit reads only its own previous state."
    )
    recurrent_initialization: RecurrentInitialization = setting(
        "identity", "Initial recurrent matrix U. spread: a diagonal from 0 to 1."
    )
    tie_embeddings: bool = setting(
        True, "Share the output matrix with the embedding; if sizes differ, a projection precedes it."
    )
    head_bias: Literal["zero", "unigram"] = setting(
        "unigram", "Initial output bias. unigram: log frequencies of the training split."
    )
    backend: Backend = setting(
        "fused", "Implementation of the same function. fused: fast kernels. loop: readable Python."
    )

    @model_validator(mode="after")
    def check_diagonal(self) -> "ModelConfig":
        if self.recurrence == "diagonal" and self.recurrent_initialization not in ("identity", "spread"):
            raise ValueError("recurrence=diagonal needs recurrent_initialization=identity or spread")
        return self

    @model_validator(mode="after")
    def check_one_hot(self) -> "ModelConfig":
        if self.input == "one-hot" and (self.tie_embeddings or self.embedding_size is not None):
            raise ValueError("input=one-hot needs tie_embeddings=false and embedding_size=null")
        return self
