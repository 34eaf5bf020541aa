"""Options of `rnnlm score` and of the `score` deployment, which are not part of the pipeline's configuration."""

from typing import Any, Literal

from pydantic import Field, model_validator

from rnnlm.config import SCORED_ROWS, SHARD_DOCUMENTS, CorpusConfig, EngineConfig


class ScoringConfig(EngineConfig):
    """Settings for scoring many texts."""

    input: str = Field(
        min_length=1,
        description="Texts to score: a file, folder or glob (text, csv, tsv, jsonl, Parquet), or a DuckDB file.",
    )
    output: str | None = Field(
        None,
        pattern=r"\.(parquet|duckdb)$",
        description="A .parquet file, or a .duckdb file in which a table `scores` is created. Default: a file in the "
        "home.",
    )
    model: str | None = Field(
        None,
        description="Model for scoring: a registered name (its champion), NAME@challenger, NAME/3, a run's id or "
        "folder. Default: the champion of the only registered model.",
    )
    query: str | None = Field(
        None,
        min_length=1,
        description="SQL query that selects one document per row from a DuckDB file. It must end in an order by.",
    )
    column: str = Field("text", min_length=1, description="Column with the text, in a table or query.")
    id_column: str | None = Field(None, min_length=1, description="Column that is copied to the output's column `id`.")
    encoding: str = Field(
        "utf-8",
        min_length=1,
        description="Text encoding of the files. If bytes of a file are invalid in it, the encoding of "
        "this file is guessed.",
    )
    quoting: Literal["auto", "doubled", "backslash", "none"] = Field(
        "auto",
        description="Quoting of cells with delimiters in csv and tsv files, as in corpus.quoting. With auto, it is "
        "detected from the file.",
    )
    document: Literal["line", "paragraph"] = Field(
        "line", description="Unit of text that is a document, in text files and in the validation text for drift."
    )
    keep_text: bool = Field(True, description="Whether to store the texts in the output. --no-text leaves them out.")
    surprising_tokens: int = Field(
        5, ge=0, le=1_000, description="Number of tokens with the highest loss that are stored per document."
    )
    top: int = Field(0, ge=0, le=1_000, description="Number of the strangest documents to list.")
    batch_size: int = Field(
        SCORED_ROWS, ge=1, le=65_536, description="Number of rows per batch. It changes the scores only by rounding."
    )
    shard_documents: int = Field(
        SHARD_DOCUMENTS,
        ge=1,
        le=1_000_000,
        description="Number of documents per shard. A run that was killed repeats at most one shard. Shards are larger "
        "for an input of 1 GiB or more.",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto",
        description="Device for the computation. With auto, it is a GPU if there is one, but on Ray it is the CPU.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Precision of the output layer's matrix products for rare classes. With auto, it is bfloat16 if "
        "the processor supports it.",
    )
    drift_threshold: float = Field(
        0.2,
        gt=0.0,
        le=1.0,
        description="Maximum Kolmogorov-Smirnov distance between the bits per byte of the documents and of the "
        "validation text. If it is exceeded, a Prefect event is emitted.",
    )
    may_be_missing: bool = Field(
        False, description="Do nothing if the input does not exist yet, which is useful in schedules."
    )
    force: bool = Field(False, description="Score again even if the output exists.")

    def subject(self) -> tuple[CorpusConfig, str]:
        return CorpusConfig(source=self.input), ""

    @model_validator(mode="after")
    def queries_are_of_databases(self) -> "ScoringConfig":
        if self.input.endswith((".duckdb", ".db")) != (self.query is not None):
            raise ValueError("a DuckDB file (.duckdb, .db) as input needs a query, and a query needs such a file")
        return self

    @model_validator(mode="after")
    def strange_documents_have_texts(self) -> "ScoringConfig":
        if self.top and not self.keep_text:
            raise ValueError("top needs the texts in the output; leave out keep_text=false (--no-text)")
        return self

    @model_validator(mode="before")
    @classmethod
    def ray_scores_on_cpus(cls, values: Any) -> Any:
        """Set the device to the CPU if the engine is Ray.

        The tasks on the Ray cluster request CPU cores, and the cluster's machines may lack this machine's devices.
        """
        if isinstance(values, dict) and values.get("engine") == "ray":
            if values.get("device", "auto") not in ("auto", "cpu"):
                raise ValueError("engine=ray scores on CPU cores; for another device use engine=local")
            return values | {"device": "cpu"}
        return values
