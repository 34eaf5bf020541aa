"""What `rnnlm ngram` takes; no stage of the pipeline."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rnnlm.config import Section, Seed


class NgramConfig(Section):
    """The count-based model."""

    method: Literal["kneser-ney", "textbook"] = "kneser-ney"
    order: int = Field(5, ge=1, le=5)  # tokens of the longest n-gram, the predicted one included
    memory_limit: str = Field("2GB", pattern=r"^[1-9][0-9]*(MB|GB|TB|MiB|GiB|TiB)$")  # DuckDB's; the rest spills
    threads: PositiveInt | None = None  # None: all cores
    samples: NonNegativeInt = 0  # texts to draw
    maximum_tokens: int = Field(40, ge=1, le=100_000)  # a sample at most
    seed: Seed = 0
