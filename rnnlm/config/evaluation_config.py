"""Settings of the evaluation of a trained model: perplexity, samples and plots."""

from typing import Literal

from pydantic import model_validator

from rnnlm.config.bounds import MaximumTokens, PositiveInt, Seed, Size, Temperature, TopK, TopP
from rnnlm.config.section import Section, setting

# Two constants for scoring a user's texts with `rnnlm score` or from Python.
SCORED_ROWS = 256  # The number of rows that are scored together. It changes results only by rounding.
SHARD_DOCUMENTS = 4_096  # The number of documents that are scored together.


class EvaluationConfig(Section):
    splits: tuple[Literal["train", "valid", "test"], ...] = setting(
        ("valid", "test"), "Splits on which the model is scored after training. They must include valid and test."
    )
    first_rows: PositiveInt | None = setting(
        None,
        "Number of rows at the beginning of each split. Their perplexity is reported in addition to that of the whole "
        "split. If null, it is not reported.",
        added_later=True,
    )
    batch_size: Size = setting(
        64, "Number of sequences that are scored together in sentence mode.", changes_results=False
    )

    @model_validator(mode="after")
    def check_splits(self) -> "EvaluationConfig":
        if not {"valid", "test"} <= set(self.splits):
            raise ValueError("splits must include valid, on which versions are compared, and test, which is reported")
        return self


class GenerationConfig(Section):
    prompts: tuple[str, ...] | None = setting(
        None,
        "Texts that the model continues. If null, they are the empty prompt and the beginnings of validation "
        "sequences.",
    )
    minimum_tokens: MaximumTokens = setting(
        1, "Minimum number of tokens per sample. The end of the line is not sampled before this number is reached."
    )
    maximum_tokens: MaximumTokens = setting(40, "Maximum number of tokens per sample.")
    temperature: Temperature = setting(0.8, "Sampling temperature. With 0, decoding is greedy.")
    top_k: TopK = setting(
        0, "Number of most likely tokens from which each token is sampled. With 0, it is sampled from all tokens."
    )
    top_p: TopP = setting(
        0.95,
        "Total probability of the most likely tokens from which each token is sampled. With 1, it is sampled from all "
        "tokens.",
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
