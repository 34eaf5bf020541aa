"""The results of one model in a comparison: its size, its training costs and the scores of its runs."""

import statistics

import numpy as np

from rnnlm.evaluation.seed_scores import mean_margin
from rnnlm.evaluation.token_losses import token_losses
from rnnlm.extensions.comparison.run_plan import TunedSettings
from rnnlm.extensions.comparison.training_costs import TrainingCosts
from rnnlm.sequences.batches import RowSource
from rnnlm.storage.records import Record
from rnnlm.storage.result_records import SplitScore
from rnnlm.tokenizers.text_tokenizer import BOS, EOS

# The buckets of positions in a sentence. Each bucket begins at one of these positions and ends before the next one.
POSITIONS = (0, 1, 2, 3, 5, 10, 20, 50, 100)


class Trial(Record):
    """A tuning trial, with perplexities on a sample of the validation split.

    The trial is first trained on a fraction of the tokens. The best two trials are finalists, which are trained again
    on all tokens. A perplexity is None if training diverged, and `final_perplexity` is None if the trial is not a
    finalist.
    """

    settings: TunedSettings
    validation_perplexity: float | None
    final_perplexity: float | None = None


def best_settings(trials: tuple[Trial, ...]) -> TunedSettings | None:
    """Return the settings of the best finalist, or of the best trial if there are no finalists.

    Return None if training diverged in every trial.
    """
    finals = {trial.settings: trial.final_perplexity for trial in trials if trial.final_perplexity}
    scores = finals or {trial.settings: trial.validation_perplexity for trial in trials if trial.validation_perplexity}
    return min(scores, key=scores.__getitem__, default=None)


class RunResult(Record):
    """The result of one training run. A count-based model has only one result."""

    run_id: str
    seed: int
    trained_tokens: int
    validation: SplitScore
    test: SplitScore
    curve: tuple[tuple[float, float], ...]  # The learning curve as pairs of trained tokens and validation perplexity.
    mlflow_run_id: str | None = None


class ModelResult(Record):
    """The results of one model of a comparison. A field is None if it does not apply to the model."""

    model: str  # The name of the model, one of comparison_config.ALL_MODELS.
    settings: TunedSettings | None = None  # The settings that the tuning trials selected.
    trials: tuple[Trial, ...] = ()
    hidden_size: int | None = None
    parameters: int  # The number of parameters, or of stored n-grams for a count-based model.
    embedding_parameters: int | None = None
    state_bytes: int  # The size of the recurrent state for one text in bytes.
    training_flops_per_token: int | None = None
    costs: TrainingCosts | None = None
    runs: tuple[RunResult, ...]
    # The mean loss over all runs in nats per token, for each bucket of POSITIONS.
    loss_by_position: tuple[float | None, ...]
    # The gradient norms in the first run by distance in time steps back from the loss, relative to the norm at distance
    # 0.
    input_gradients: tuple[float, ...] = ()

    @property
    def test_perplexity(self) -> float:
        return statistics.fmean(run.test.perplexity for run in self.runs)

    @property
    def bits_per_byte(self) -> float:
        return statistics.fmean(run.test.bits_per_byte for run in self.runs)

    @property
    def perplexity_margin(self) -> float | None:
        """Half the width of the confidence interval of the mean test perplexity, or None if there is only one run."""
        return mean_margin([run.test.perplexity for run in self.runs])

    @property
    def gradient_reach(self) -> int | None:
        """The largest distance in time steps at which the gradient norm is at least 1 % of the norm at distance 0."""
        return max((step for step, norm in enumerate(self.input_gradients) if norm >= 0.01), default=None)

    @property
    def final_validation_perplexity(self) -> float:
        """The validation perplexity at the end of the first run's learning curve."""
        return self.runs[0].curve[-1][1]

    def seconds_to(self, perplexity: float) -> float | None:
        """Return the seconds of training until the first run reaches a perplexity, computed from the measured speed.

        Return None if the run does not reach this perplexity.
        """
        if self.costs is None:
            return None
        tokens = tokens_to(self.runs[0].curve, perplexity)
        return None if tokens is None else tokens / self.costs.tokens_per_second


def tokens_to(curve: tuple[tuple[float, float], ...], perplexity: float) -> float | None:
    """Return the number of trained tokens at which the curve falls to a perplexity, or None if it never does.

    Between measurements, the logarithm of the perplexity is interpolated linearly.
    """
    for index, (tokens, value) in enumerate(curve):
        if value > perplexity:
            continue
        if index == 0:
            return tokens
        before, above = curve[index - 1]
        share = np.log(above / perplexity) / np.log(above / value)
        return float(before + share * (tokens - before))
    return None


def loss_by_position(source: RowSource, nll_nats: np.ndarray) -> tuple[float | None, ...]:
    """Return the mean loss in nats by position in the sentence, in buckets that begin at POSITIONS.

    The result has None for an empty bucket. `nll_nats` has the shape (predicted tokens,). The first token after `<bos>`
    or `<eos>` has position 0.
    """
    sums, counts = np.zeros(len(POSITIONS)), np.zeros(len(POSITIONS), np.int64)
    since = 0  # The number of tokens of the current sentence in earlier chunks.
    for part in token_losses(source, nll_nats):
        begins = np.isin(part["previous_token_id"], (BOS, EOS))
        places = np.arange(len(part))
        last_begin = np.maximum.accumulate(np.where(begins, places, -1))
        positions = np.where(last_begin >= 0, places - last_begin, places + since)
        buckets = np.searchsorted(POSITIONS, positions, side="right") - 1
        sums += np.bincount(buckets, part["nll_nats"], len(POSITIONS))
        counts += np.bincount(buckets, minlength=len(POSITIONS))
        since = int(positions[-1]) + 1 if len(part) else since
    return tuple(float(total / count) if count else None for total, count in zip(sums, counts, strict=True))
