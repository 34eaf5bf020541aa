"""What `rnnlm score` and the deployment `score` take; no stage of the pipeline."""

from typing import Literal

from pydantic import Field, model_validator

from rnnlm.config import Section


class ScoringConfig(Section):
    """Texts scored in bulk."""

    input: str = Field(min_length=1)  # file, folder or glob: text, csv, tsv, JSON lines, Parquet; or a DuckDB file
    output: str = Field(pattern=r"\.(parquet|duckdb)$")  # a Parquet file, or a DuckDB file that gets a table `scores`
    model: str | None = None  # run folder or id, models:/…; None: the champion of the only registered model
    query: str | None = Field(None, min_length=1)  # a select whose rows are the documents; for a DuckDB file
    column: str = Field("text", min_length=1)  # the text's, in csv, tsv, JSON lines, Parquet and a query
    id_column: str | None = Field(None, min_length=1)  # of the same table; its values go into the output's `id`
    document: Literal["line", "paragraph"] = "line"  # of a text file; and of the validation text compared with
    keep_text: bool = True  # in the output; False: numbers and tokens alone
    surprising_tokens: int = Field(5, ge=0, le=1_000)  # kept of each document, the most surprising first
    batch_size: int = Field(256, ge=1, le=65_536)  # rows at once. Changes results by rounding alone
    shard_documents: int = Field(4_096, ge=1, le=1_000_000)  # what a killed run does again at most
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = (
        "auto"  # of products with rare classes: scoring/projection_precision.py
    )
    drift_threshold: float = Field(0.2, gt=0.0, le=1.0)  # Kolmogorov-Smirnov distance above which an event is raised
    may_be_missing: bool = False  # an input that is not there (yet) is no error; for a schedule
    force: bool = False  # score again although the output is there

    @model_validator(mode="after")
    def queries_are_of_databases(self) -> "ScoringConfig":
        if self.input.endswith((".duckdb", ".db")) != (self.query is not None):
            raise ValueError("a DuckDB file (.duckdb, .db) as input and a query are given together")
        return self
