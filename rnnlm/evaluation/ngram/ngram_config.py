"""Options of `rnnlm ngram`, which is not a stage of the pipeline."""

from typing import Literal

from pydantic import Field

from rnnlm.config.bounds import NonNegativeInt, Seed, Size
from rnnlm.config.section import Section

Method = Literal["kneser-ney", "textbook"]


class NgramConfig(Section):
    """The n-gram model."""

    method: Method = Field("kneser-ney", description="Smoothing method.")
    order: int = Field(
        5, ge=1, le=5, description="Number of tokens in the longest n-gram, including the predicted one."
    )
    memory_limit: str = Field(
        "2GB",
        pattern=r"^[1-9][0-9]*(MB|GB|TB|MiB|GiB|TiB)$",
        description="Memory limit of DuckDB, such as 2GB. Larger data is spilled to disk.",
    )
    threads: Size | None = Field(None, description="Number of DuckDB's threads. Default: one per core.")
    samples: NonNegativeInt = Field(0, description="Number of texts to sample.")
    maximum_tokens: int = Field(40, ge=1, le=100_000, description="Number of tokens per sample.")
    seed: Seed = Field(0, description="Random seed of the samples.")
