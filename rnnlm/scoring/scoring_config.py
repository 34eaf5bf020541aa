"""Settings of `rnnlm score` and the deployment `score`; not a stage of the pipeline."""

from typing import Literal

from pydantic import Field, model_validator

from rnnlm.config import Section


class ScoringConfig(Section):
    """Bulk scoring of texts."""

    input: str = Field(min_length=1)  # file, folder or glob: text, csv, tsv, JSON lines, Parquet; or a DuckDB file
    output: str = Field(pattern=r"\.(parquet|duckdb)$")  # a Parquet file, or a DuckDB file that gets a table `scores`
    model: str | None = None  # run folder or id, models:/…; None: the champion of the only registered model
    query: str | None = Field(None, min_length=1)  # for a DuckDB file: a select whose rows are the documents
    column: str = Field("text", min_length=1)  # with the text, in csv, tsv, JSON lines, Parquet and a query
    id_column: str | None = Field(None, min_length=1)  # copied to the output's `id`
    document: Literal["line", "paragraph"] = "line"  # unit of text files and of the reference
    keep_text: bool = True  # in the output
    surprising_tokens: int = Field(5, ge=0, le=1_000)  # kept of each document, the most surprising first
    batch_size: int = Field(256, ge=1, le=65_536)  # rows at once; changes only rounding
    shard_documents: int = Field(4_096, ge=1, le=1_000_000)  # the most that a killed run repeats
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # of products with rare classes; see tail_dtype
    drift_threshold: float = Field(0.2, gt=0.0, le=1.0)  # Kolmogorov-Smirnov distance that raises an event
    may_be_missing: bool = False  # do not fail if there is no input (yet); for a schedule
    force: bool = False  # score again even if the output is there

    @model_validator(mode="after")
    def require_query_for_database(self) -> "ScoringConfig":
        if self.input.endswith((".duckdb", ".db")) != (self.query is not None):
            raise ValueError("a DuckDB file (.duckdb, .db) as input needs a query, and a query needs one")
        return self
