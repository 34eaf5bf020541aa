"""Counts beside a network, and both mixed."""

import itertools

import numpy as np
import pytest

from rnnlm.config import EvaluationConfig
from rnnlm.evaluation.baselines import split_facts
from rnnlm.evaluation.count_mixture import FEWEST_TOKENS, fitted_shares, mix_with_counts, split_log_probabilities
from rnnlm.evaluation.ngram.count_arrays import read_count_model
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_perplexity import score_ngram_split
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.evaluation.score_tables import counts_sentence, score_rows
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.home import Home
from rnnlm.records import CountsScore, DatasetRecord, EvaluationRecord, RunRecord, Split, SplitScore
from rnnlm.sequences.dataset_reader import StoredSplit

SPLITS: tuple[Split, ...] = ("valid", "test")


def test_a_context_length_is_that_of_the_longest_context_in_the_training_text(
    home: Home, toy_dataset: DatasetRecord
) -> None:
    """Against a search for every context in every training row."""
    config = NgramConfig(order=3)
    model = read_count_model(train_kneser_ney(home, toy_dataset, config), config, toy_dataset.vocabulary_size)
    _, lengths = split_log_probabilities(model, StoredSplit(toy_dataset, "test"))

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


def test_each_length_of_context_has_the_share_that_is_best_for_its_tokens() -> None:
    """Where one model gives each token 0.9 and the other 0.1, the best share is 0 or 1."""
    half, high, low = np.full(FEWEST_TOKENS, 0.5), np.full(FEWEST_TOKENS, 0.9), np.full(FEWEST_TOKENS, 0.1)
    network, counts = np.log(np.concatenate([high, low, half[:10]])), np.log(np.concatenate([low, high, half[:10]]))
    lengths = np.repeat([0, 1, 2], [FEWEST_TOKENS, FEWEST_TOKENS, 10])
    shares = fitted_shares(network, counts, lengths, 3)
    assert shares[:2] == pytest.approx([0, 1], abs=1e-5)
    assert shares[2] == pytest.approx(0.5, abs=1e-3)  # too few tokens: the share that is best for all


def test_the_mixture_needs_no_more_than_its_parts_where_it_was_fitted(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    nll = {split: stored_nll(home, toy_dataset, toy_run, split, 64) for split in SPLITS}
    mixture = mix_with_counts(home, toy_dataset, 4, nll)
    config = NgramConfig(order=4)
    counted = train_kneser_ney(home, toy_dataset, config)
    for split in SPLITS:
        expected = score_ngram_split(counted, toy_dataset, split, config).summed_nll_nats
        assert mixture.counts_nll_nats[split] == pytest.approx(expected)
    network = float(nll["valid"].sum(dtype=np.float64))
    assert mixture.mixed_nll_nats["valid"] <= min(network, mixture.counts_nll_nats["valid"]) + 1e-6
    assert len(mixture.shares) == 4
    assert all(0 <= share <= 1 for share in mixture.shares)


def test_an_evaluation_has_the_counts_unless_they_are_turned_off(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    found = evaluate_run(home, toy_dataset, toy_run, EvaluationConfig(splits=("train", "valid", "test"), counts=3))
    assert found.scores["train"].counts is None  # the counts have seen it
    test = found.scores["test"]
    assert test.counts is not None
    assert test.counts.order == 3
    # The bits that tokens do not tell are the same: bits per byte differ as the losses do.
    difference = np.log2(test.counts.perplexity / test.perplexity) * test.tokens
    size = test.counts.bits_per_byte - test.bits_per_byte
    assert size * split_facts(toy_dataset, "test").byte_count == pytest.approx(difference)
    models = [(row["split"], row["model"]) for row in score_rows(found)]
    held_out = [(split, model) for split in SPLITS for model in ("network", "3-gram counts", "mixed")]
    assert models == [("train", "network"), *held_out]
    without = evaluate_run(home, toy_dataset, toy_run, EvaluationConfig(counts=0))
    assert all(score.counts is None for score in without.scores.values())


def test_the_sentence_says_which_is_better_and_what_the_mixture_adds() -> None:
    counts = CountsScore(
        order=5,
        perplexity=60.0,
        bits_per_byte=1.6,
        mixed_perplexity=48.0,
        mixed_bits_per_byte=1.5,
        shares=(),
        seconds=6,
    )
    score = SplitScore(
        split="test",
        tokens=10,
        nll_nats_per_token=4.0,
        perplexity=80.0,
        bits_per_byte=1.7,
        unknown_rate=0.0,
        uniform_perplexity=100.0,
        unigram_perplexity=90.0,
    )
    assert counts_sentence(score) == ""
    assert counts_sentence(score.model_copy(update={"counts": counts})) == (
        "5-gram counts (6 s) have test perplexity 60.00, better than this network by 25%; "  # 60 / 80
        "mixed, both have 48.00, 20% below the better of them"  # 48 / 60
    )
    assert "worse than this network by 50%" in counts_sentence(
        score.model_copy(update={"perplexity": 40.0, "counts": counts})
    )
    [network, alone, both] = score_rows(EvaluationRecord(scores={"test": score.model_copy(update={"counts": counts})}))
    assert (network["perplexity"], alone["perplexity"], both["bits/byte"]) == ("80.00", "60.00", "1.500")
    assert network.keys() == alone.keys() == both.keys()
