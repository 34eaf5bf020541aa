"""Options of `rnnlm filter`: those of `rnnlm score`, and the conditions that a document must meet to be kept."""

from typing import Annotated

from pydantic import Field, model_validator

from rnnlm.extensions.scoring.scoring_config import ScoringConfig


class FilterConfig(ScoringConfig):
    """Settings of a filter that keeps or drops texts by their scores."""

    input: str = Field(
        min_length=1, description="Texts to filter: a file, folder or glob (text, csv, tsv, jsonl, Parquet)."
    )
    output: str = Field(
        min_length=1,
        description="Folder for the kept documents. The names and formats of its files are those of the input files.",
    )
    dropped: str | None = Field(
        None, min_length=1, description="Folder for the dropped documents, and the reasons why they were dropped."
    )
    keep: str | None = Field(
        None,
        min_length=1,
        description="SQL condition that a document must meet to be kept, on the columns that rnnlm score writes, such "
        "as 'bits_per_byte < 3 and tokens >= 5'.",
    )
    keep_quantiles: tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...] = Field(
        (),
        max_length=2,
        description="Two quantile levels of the validation text's bits per byte. Documents between the two quantiles "
        "are kept.",
    )
    keep_share: float | None = Field(
        None,
        gt=0.0,
        lt=1.0,
        description="Fraction of the documents to keep. These are the documents with the fewest bits per byte.",
    )

    @model_validator(mode="after")
    def something_decides(self) -> "FilterConfig":
        if self.query is not None:
            raise ValueError(
                "a filter reads only files; for a database, write the condition into a query on the output of "
                "rnnlm score"
            )
        if not (self.keep or self.keep_quantiles or self.keep_share):
            raise ValueError(
                "give keep, keep_quantiles or keep_share; if several are given, a document must meet all of them"
            )
        if self.keep_quantiles and not (
            len(self.keep_quantiles) == 2 and self.keep_quantiles[0] < self.keep_quantiles[1]
        ):
            raise ValueError("keep_quantiles: expected two levels, the lower one first")
        return self
