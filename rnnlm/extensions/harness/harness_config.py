"""Options of `rnnlm lm-eval`, which are not part of the pipeline's configuration."""

from pydantic import Field, model_validator

from rnnlm.config import Section
from rnnlm.config.bounds import NonNegativeInt, PositiveFloat, Size


class HarnessConfig(Section):
    """Settings of EleutherAI's harness: its tasks and the number of documents to evaluate."""

    tasks: tuple[str, ...] = Field(
        (), description="comma-separated names of harness tasks or YAML task files; most tasks download their data"
    )
    file: str | None = Field(None, description="measure bits per byte and perplexities of this whole text")
    limit: PositiveFloat | None = Field(
        None, description="maximum number of documents per task, or a fraction of them if below 1"
    )
    fewshot: NonNegativeInt | None = Field(
        None, description="number of examples before each question; by default, the task decides"
    )
    batch_size: Size = Field(64, description="number of texts per batch")

    @model_validator(mode="after")
    def has_something_to_measure(self) -> "HarnessConfig":
        if not self.tasks and self.file is None:
            raise ValueError("give --tasks NAME,… or --file PATH, or both")
        return self
