"""Settings of the evaluation of a trained model: perplexity, samples and plots."""

from typing import Literal

from pydantic import model_validator

from rnnlm.config.bounds import MaximumTokens, PositiveInt, Seed, Size, Temperature, TopK, TopP
from rnnlm.config.section import Section, setting

# Two constants for scoring texts of a user, by `rnnlm score` and from Python.
SCORED_ROWS = 256  # The number of rows that are scored together. It changes results only by rounding.
SHARD_DOCUMENTS = 4_096  # The number of documents that are scored together.


class EvaluationConfig(Section):
    splits: tuple[Literal["train", "valid", "test"], ...] = setting(
        ("valid", "test"), "Splits to score after training. valid and test are required."
    )
    first_rows: PositiveInt | None = setting(
        None,
        "Number of rows at the beginning of each split whose perplexity is reported in addition to that of the whole "
        "split. If null, it is not reported.",
        added_later=True,
    )
    batch_size: Size = setting(64, "Number of sequences scored together in sentence mode.", changes_results=False)

    @model_validator(mode="after")
    def check_splits(self) -> "EvaluationConfig":
        if not {"valid", "test"} <= set(self.splits):
            raise ValueError("splits must include valid, on which versions are compared, and test, which is reported")
        return self


class GenerationConfig(Section):
    prompts: tuple[str, ...] | None = setting(
        None, "Texts to continue. If null, the empty prompt and the beginnings of validation sequences."
    )
    minimum_tokens: MaximumTokens = setting(
        1, "Smallest number of tokens per sample. The end of the line is not sampled before."
    )
    maximum_tokens: MaximumTokens = setting(40, "Largest number of tokens per sample.")
    temperature: Temperature = setting(0.8, "Sampling temperature. 0 means greedy decoding.")
    top_k: TopK = setting(0, "Sample from this number of most likely tokens. 0 means from all tokens.")
    top_p: TopP = setting(
        0.95, "Sample from the most likely tokens that have this total probability. 1 means from all tokens."
    )
    seed: Seed = setting(0, "Seed of the first sample. Further samples have the following seeds.")
    unknown: bool = setting(False, "Whether samples may contain <unk>.")

    @model_validator(mode="after")
    def check_lengths(self) -> "GenerationConfig":
        if self.minimum_tokens > self.maximum_tokens:
            raise ValueError(
                f"minimum_tokens {self.minimum_tokens} must be at most maximum_tokens {self.maximum_tokens}"
            )
        return self
