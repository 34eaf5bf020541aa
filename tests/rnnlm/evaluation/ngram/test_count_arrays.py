"""The Kneser-Ney model in arrays gives the same probabilities as the model in SQL."""

import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rnnlm.evaluation.ngram.count_arrays import read_count_model
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import open_model
from rnnlm.evaluation.ngram.ngram_evaluation import next_distribution
from rnnlm.models.count_model import count_model_of, find, keys_of
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.sequences.shift import contexts
from rnnlm.storage.home import Home
from tests.rnnlm.evaluation.ngram.conftest import Rows, WriteDataset, log_probabilities

BOS, EOS, VOCABULARY = 2, 3, 20


def random_rows(draw: random.Random, count: int) -> Rows:
    """Return random rows: whole sentences, and parts of sentences that continue an earlier row."""
    return [
        [*([BOS] if draw.random() < 0.8 else []), *draw.choices(range(4, 12), k=draw.randint(1, 9)), EOS]
        for _ in range(count)
    ]


@pytest.mark.parametrize("order", [1, 5])
@pytest.mark.parametrize("sentences", [4, 200])
def test_array_probabilities_equal_those_of_sql(
    home: Home, write_dataset: WriteDataset, tmp_path: Path, order: int, sentences: int
) -> None:
    draw = random.Random(sentences)
    test = [*random_rows(draw, 40), [BOS, 19, 4, 19, EOS]]  # The token 19 does not occur in the training text.
    dataset = write_dataset(VOCABULARY, train=random_rows(draw, sentences), test=test)
    config = NgramConfig(order=order)
    trained = train_kneser_ney(home, dataset, config)
    with open_model(trained) as connection:
        model = read_count_model(connection, order, VOCABULARY)
    save_file(model.arrays(), tmp_path / "counts.safetensors")

    stored = log_probabilities(trained, dataset)
    before, words = contexts(rows_from_lists(test), order - 1)
    for one in (model, count_model_of(load_file(tmp_path / "counts.safetensors"), VOCABULARY)):
        found, lengths = one.log_probabilities(before, words)
        np.testing.assert_allclose(found, stored, rtol=1e-12)
        assert lengths.max() == order - 1

    with open_model(trained) as connection:
        for context in [[], [BOS], [4], [19], [5, 19], [19, 5], test[0], test[1][:3], [BOS, 4, 5, 6, 7]]:
            ids, _, expected = next_distribution(connection, "kneser-ney", context)
            distribution, known = model.distribution(context[::-1])
            assert known < order
            np.testing.assert_allclose(distribution[ids], expected, rtol=1e-12)
            assert distribution.sum() == pytest.approx(1, abs=1e-12)


def test_a_list_of_words_has_the_order_of_its_rows(home: Home, write_dataset: WriteDataset) -> None:
    rows = [[BOS, word, EOS] for word in (4, 5, 4, 6, 7, 4)]
    dataset = write_dataset(VOCABULARY, train=rows, test=[[BOS, 5, EOS], [BOS, 19, EOS]])
    trained = train_kneser_ney(home, dataset, NgramConfig(order=5))
    with open_model(trained) as connection:
        model = read_count_model(connection, 5, VOCABULARY)
    assert model.order == 3
    found, _ = model.log_probabilities(*contexts(rows_from_lists([[BOS, 5, EOS], [BOS, 19, EOS]]), model.order - 1))
    np.testing.assert_allclose(found, log_probabilities(trained, dataset), rtol=1e-12)
    assert model.distribution([4, BOS])[0].sum() == pytest.approx(1, abs=1e-12)


def test_a_key_is_found_where_its_context_has_its_token() -> None:
    """find() agrees with Python's membership test for existing and missing pairs of a context and a token."""
    draw = np.random.Generator(np.random.Philox(0))
    parts = [np.unique(draw.integers(0, 30, size)) for size in (0, 1, 2, 7, 0, 13, 25, 0)]
    tokens, first = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    nodes, wanted = (grid.ravel() for grid in np.meshgrid(np.arange(len(parts)), np.arange(31), indexing="ij"))
    keys = keys_of(first, tokens, 31)
    assert (np.diff(keys) > 0).all()
    places, found = find(keys, nodes * 31 + wanted)
    assert found.tolist() == [token in parts[node] for node, token in zip(nodes, wanted, strict=True)]
    assert np.array_equal(tokens[places[found]], wanted[found])
    assert ((places[found] >= first[nodes[found]]) & (places[found] < first[nodes[found] + 1])).all()


def test_a_context_is_what_stands_before_in_the_row() -> None:
    before, words = contexts(rows_from_lists([[2, 5, 6, 3], [7, 8]]), 2)
    assert words.tolist() == [5, 6, 3, 8]
    assert before.tolist() == [[2, 0], [5, 2], [6, 5], [7, 0]]
