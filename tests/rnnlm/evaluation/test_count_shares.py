"""The scores of an n-gram model, of a network and of their mixture, and the weights of the mixture."""

import itertools

import numpy as np
import pytest

from rnnlm.config import EvaluationConfig
from rnnlm.evaluation import count_shares
from rnnlm.evaluation.baselines import split_facts
from rnnlm.evaluation.count_shares import (
    FEWEST_TOKENS,
    count_training_split,
    first_counted_row,
    fit_mixture,
    fitted_shares,
    split_log_probabilities,
)
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_evaluation import score_ngram_split
from rnnlm.evaluation.perplexity import evaluate_run, summed_losses
from rnnlm.evaluation.score_tables import score_rows
from rnnlm.evaluation.token_losses import mixed_nll, stored_network_nll, stored_nll
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord, Split

SPLITS: tuple[Split, ...] = ("valid", "test")


def test_context_length_is_the_longest_context_seen_in_training(home: Home, toy_dataset: DatasetRecord) -> None:
    """The length of the longest context in the training text equals that of a search through all training rows."""
    model, _ = count_training_split(toy_dataset, 3)
    _, lengths = split_log_probabilities(model, toy_dataset, "test")

    def rows(split: Split) -> list[list[int]]:
        source = StoredSplit(toy_dataset, split)
        stored = source.read(0, len(source))
        return [stored.token_ids[first:last].tolist() for first, last in itertools.pairwise(stored.offsets)]

    known = {tuple(row[end - n : end]) for row in rows("train") for n in (1, 2) for end in range(n, len(row))}
    expected = [
        max((n for n in (1, 2) if n <= end and tuple(row[end - n : end]) in known), default=0)
        for row in rows("test")
        for end in range(1, len(row))
    ]
    assert lengths.tolist() == expected
    assert {0, 1, 2} >= set(expected) > {2}


def test_each_context_length_has_its_best_share() -> None:
    """Each context length gets the weight that is best for the tokens with a context of this length.

    The best weight is 0 or 1 if one model gives each token 0.9 and the other gives it 0.1.
    """
    half, high, low = np.full(FEWEST_TOKENS, 0.5), np.full(FEWEST_TOKENS, 0.9), np.full(FEWEST_TOKENS, 0.1)
    network, counts = np.log(np.concatenate([high, low, half[:10]])), np.log(np.concatenate([low, high, half[:10]]))
    lengths = np.repeat([0, 1, 2], [FEWEST_TOKENS, FEWEST_TOKENS, 10])
    shares = fitted_shares(network, counts, lengths, 3)
    assert shares[:2] == pytest.approx([0, 1], abs=1e-5)
    # Few tokens have a context of this length, so it gets the weight that is best for all tokens.
    assert shares[2] == pytest.approx(0.5, abs=1e-3)


def test_the_fitted_mixture_beats_its_parts_on_validation(
    toy_dataset: DatasetRecord, toy_run: RunRecord, home: Home
) -> None:
    network = stored_network_nll(home, toy_dataset, toy_run, "valid", 64)
    mixture, seconds = fit_mixture(toy_dataset, 4, network)
    assert seconds > 0
    source = StoredSplit(toy_dataset, "valid")
    sums = summed_losses(mixture, [network], source, "sentence")
    config = NgramConfig(order=4)
    counted = train_kneser_ney(home, toy_dataset, config)
    assert sums.counts == pytest.approx(score_ngram_split(counted, toy_dataset, "valid").summed_nll_nats)
    assert sums.network == pytest.approx(float(network.sum(dtype=np.float64)))
    assert sums.network is not None
    assert sums.counts is not None
    assert sums.model <= min(sums.network, sums.counts) + 1e-5 * len(network)
    # The losses of the network may be passed in parts of any length.
    together = np.concatenate(list(mixed_nll(mixture, [network[:7], network[7:]], source, "sentence")))
    assert together.sum(dtype=np.float64) == pytest.approx(sums.model)


def test_an_evaluation_shows_the_parts_of_a_mixture(home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    found = evaluate_run(home, toy_dataset, toy_run, EvaluationConfig(splits=("train", "valid", "test")))
    # The n-gram model is not scored on the split on which it was trained.
    assert found.scores["train"].counts is None
    test = found.scores["test"]
    assert test.counts is not None
    assert test.network is not None
    assert test.counts.order == 5
    # The cost of the information that tokenization discards is the same for all models, so bits per byte differ only by
    # the losses.
    difference = np.log2(test.counts.perplexity / test.network.perplexity) * test.tokens
    size = test.counts.bits_per_byte - test.network.bits_per_byte
    assert size * split_facts(toy_dataset, "test").byte_count == pytest.approx(difference)
    models = [(row["split"], row["model"]) for row in score_rows(found)]
    held_out = [(split, model) for split in SPLITS for model in ("network", "5-gram counts", "mixed")]
    assert models == [("train", "network"), *held_out]
    nll = stored_nll(home, toy_dataset, toy_run, "test", 64)
    # The loss of the served model equals the loss in the evaluation.
    assert test.nll_nats_per_token == pytest.approx(nll.mean(dtype=np.float64))


def test_of_a_long_text_the_last_rows_are_counted(toy_dataset: DatasetRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-gram model is counted on the last rows of a text that is too long to be counted completely.

    A toy row has 10 predicted tokens. The model equals one that is counted on the last 5 rows.
    """
    assert first_counted_row(toy_dataset) == 0
    monkeypatch.setattr(count_shares, "COUNTED_TOKENS", 50)
    rows = toy_dataset.sequence_counts["train"]
    assert first_counted_row(toy_dataset) == rows - 5
    counts, _ = count_training_split(toy_dataset, 2)
    stored = StoredSplit(toy_dataset, "train").read(rows - 5, rows)
    pairs = {
        pair
        for first, last in itertools.pairwise(stored.offsets)
        for pair in itertools.pairwise(stored.token_ids[first:last].tolist())
    }
    assert len(counts.levels[1].words) == len(pairs)
