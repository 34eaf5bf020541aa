"""The values of a ModelResult agree with values computed by hand."""

import math

import numpy as np
import pytest

from rnnlm.config import ModelConfig
from rnnlm.extensions.comparison.model_result import (
    ModelResult,
    RunResult,
    Trial,
    best_settings,
    loss_by_position,
    tokens_to,
)
from rnnlm.extensions.comparison.run_plan import TunedSettings
from rnnlm.extensions.comparison.training_costs import TrainingCosts, training_flops_per_token
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.tokenizers.text_tokenizer import BOS, EOS
from tests.split_scores import split_score_of

COSTS = TrainingCosts(tokens_per_second=10.0, peak_mebibytes=1.0, milliseconds_per_token=1.0)


def run_of(perplexity: float) -> RunResult:
    score = split_score_of(
        perplexity,
        tokens=10,
        nll_nats_per_token=math.log(perplexity),
        bits_per_byte=1.0,
        uniform_perplexity=100.0,
        unigram_perplexity=50.0,
    )
    curve = ((100.0, 80.0), (200.0, 20.0))
    return RunResult(run_id="r", seed=0, trained_tokens=200, validation=score, test=score, curve=curve)


def result_of(*perplexities: float, gradients: tuple[float, ...] = (1.0, 0.5, 0.02, 0.001)) -> ModelResult:
    return ModelResult(
        model="elman",
        hidden_size=8,
        parameters=100,
        embedding_parameters=50,
        state_bytes=32,
        training_flops_per_token=1,
        costs=COSTS,
        runs=tuple(map(run_of, perplexities)),
        loss_by_position=(),
        input_gradients=gradients,
    )


def test_the_interval_over_seeds_is_student_s() -> None:
    """The interval of the mean of three runs with a deviation of 2 is ± 4.303 · 2 / √3.

    4.303 is t for 2 degrees of freedom.
    """
    result = result_of(98.0, 100.0, 102.0)
    assert result.test_perplexity == 100.0
    assert result.perplexity_margin == pytest.approx(4.303 * 2 / math.sqrt(3), rel=1e-3)
    assert result_of(98.0).perplexity_margin is None


def trial_of(learning_rate: float, perplexity: float | None, final: float | None = None) -> Trial:
    settings = TunedSettings(learning_rate=learning_rate, dropout_inputs=0.0, dropout_outputs=0.0)
    return Trial(settings=settings, validation_perplexity=perplexity, final_perplexity=final)


def test_the_best_settings_are_those_that_are_best_after_all_tokens() -> None:
    slow, fast, diverged = trial_of(0.001, 90.0, 50.0), trial_of(0.01, 80.0, 60.0), trial_of(0.1, None)
    assert best_settings((slow, fast, diverged)) == slow.settings
    assert best_settings((trial_of(0.01, 80.0), diverged)) == fast.settings
    assert best_settings((diverged,)) is None


def test_time_to_a_perplexity_is_read_off_the_curve() -> None:
    """A perplexity of 40, halfway between 80 and 20 on a logarithmic scale, is reached after 150 tokens.

    The speed is 10 tokens per second, so this takes 15 seconds.
    """
    assert result_of(1.0).seconds_to(40.0) == pytest.approx(15.0)
    assert tokens_to(((100.0, 80.0), (200.0, 20.0)), 100.0) == 100.0
    assert tokens_to(((100.0, 80.0), (200.0, 20.0)), 19.0) is None


def test_the_last_model_reaches_the_highest_final_perplexity() -> None:
    """Each model reaches the final perplexity of its own first run, even if the mean of its runs is lower."""
    runs = tuple(run_of(1.0).model_copy(update={"curve": ((100.0, 80.0), (200.0, end))}) for end in (22.0, 18.0))
    result = result_of(1.0).model_copy(update={"runs": runs})
    assert result.seconds_to(result.final_validation_perplexity) == pytest.approx(20.0)


def test_loss_by_position_counts_from_the_beginning_of_each_sentence() -> None:
    """Positions begin again with each sentence: the first row has the positions 0 1 2 0 1, the second 0 1 2 3."""
    rows = rows_from_lists([[BOS, 5, 6, EOS, 7, EOS], [BOS, 5, 6, 7, EOS]])
    losses = loss_by_position(rows, np.array([1, 2, 3, 3, 4, 5, 6, 7, 8], np.float32))
    assert losses[:3] == (pytest.approx(3.0), pytest.approx(4.0), pytest.approx(5.0))
    assert losses[3] == pytest.approx(8.0)
    assert losses[4:] == (None,) * 5


def test_training_flops_are_those_of_the_products() -> None:
    """Training needs 6 operations for each weight of W and U (8 x 8 each), and of the 50 rows of the output layer.

    With 20 sampled classes and the target, only 21 of these rows are used.
    """
    config = ModelConfig(hidden_size=8)
    assert training_flops_per_token(config, 50, None) == 6 * (2 * 64 + 50 * 8)
    assert training_flops_per_token(config, 50, 20) == 6 * (2 * 64 + 21 * 8)


def test_state_products_are_added_to_those_of_weights() -> None:
    """The operations of an mLSTM are those of its weights plus those of its memory, which has 2 heads of 4 x 4 numbers.

    The weights are 5 matrices of 8 x 8, two gates of 8 x 2, and 3 feed-forward matrices of 8 x 24.
    """
    config = ModelConfig(kind="transformer", hidden_size=8, heads=2, attention_window=16)
    longer = config.model_copy(update={"attention_window": 17})
    assert training_flops_per_token(longer, 50, None) - training_flops_per_token(config, 50, None) == 3 * 4 * 8
    config = ModelConfig(kind="xlstm", hidden_size=8, heads=2)
    weights = 5 * 64 + 2 * 16 + 3 * 8 * 24 + 50 * 8
    assert training_flops_per_token(config, 50, None) == 6 * weights + 3 * 6 * 2 * 4 * 4
