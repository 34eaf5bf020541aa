"""The mixture of a network and an n-gram model is a probability distribution. Damage to its files is detected."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from rnnlm.errors import ModelError
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.models.count_model import FILE
from rnnlm.models.mixture import histories, load_mixture
from rnnlm.models.model_factory import load_model, save_model
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.shift import contexts
from tests.reference_log_probabilities import log_probabilities_of
from tests.rnnlm.conftest import Storyteller

Arrays = dict[str, np.ndarray]


def test_probabilities_sum_to_one_and_agree_however_they_are_asked_for(storyteller: Storyteller) -> None:
    """The probabilities of all words, of given words, and of single steps agree, and they sum to one.

    They are computed for 500 contexts of the test split.
    """
    model = storyteller.model()
    mixture = model.mixture
    assert mixture is not None
    assert 0 < mixture.shares.max() < 1  # Both parts of the mixture have a positive weight.
    source = StoredSplit(storyteller.dataset, "test")
    rows = source.read(0, 100)
    for row, (first, last) in enumerate(itertools.pairwise(rows.offsets)):
        ids = rows.token_ids[first:last].tolist()
        with torch.inference_mode():
            hidden, _ = model.hidden(torch.tensor([ids[:-1]]))
            before = histories(np.array([ids[:-1]]), model.context_length)[0]
            every = model.mixed_logits(hidden[0], before).double()
            network = model.logits(hidden[0]).log_softmax(-1)
            stepper = InferenceWeights(model).stepper(1)
            logits, state = stepper.read(ids[:1], None)
            stepper.join(state)
            stepped = torch.cat([logits, *(stepper.step([token_id]).clone() for token_id in ids[1:-1])])
        assert every.exp().sum(dim=1).numpy() == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(stepped.double(), every, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(log_probabilities_of(model, ids[:-1]), every.float())
        targets = torch.tensor(ids[1:])
        given = -network.gather(1, targets[:, None])[:, 0].numpy()
        nll = mixture.nll(given, *contexts(rows.take(np.array([row])), mixture.context_length))
        assert nll == pytest.approx(-every.gather(1, targets[:, None])[:, 0].numpy(), abs=1e-4)
    assert rows.predicted_count >= 500


def test_the_counts_are_saved_with_the_model_and_removed_with_them(storyteller: Storyteller, tmp_path: Path) -> None:
    model = storyteller.model()
    save_model(model, tmp_path)
    assert model.mixture is not None
    again = load_model(tmp_path).mixture
    assert again is not None
    assert again.shares.tolist() == model.mixture.shares.tolist()
    for name, values in model.mixture.counts.arrays().items():
        assert np.array_equal(again.counts.arrays()[name], values)
    model.mixture = None
    save_model(model, tmp_path)
    assert load_mixture(tmp_path, storyteller.tokenizer.vocabulary_size) is None


def last_place_beyond_the_words(arrays: Arrays) -> None:
    arrays["1.first_word"][-1] += 1


def places_that_go_back(arrays: Arrays) -> None:
    arrays["0.first_child"][:] = 0


def a_word_beyond_the_vocabulary(arrays: Arrays) -> None:
    arrays["4.words"][0] = 60_000


def a_share_above_one(arrays: Arrays) -> None:
    arrays["shares"][0] = 2.0


def too_few_shares(arrays: Arrays) -> None:
    arrays["shares"] = arrays["shares"][:2]


def a_level_that_is_missing(arrays: Arrays) -> None:
    del arrays["2.tokens"]


@pytest.mark.parametrize(
    "damage",
    [
        last_place_beyond_the_words,
        places_that_go_back,
        a_word_beyond_the_vocabulary,
        a_share_above_one,
        too_few_shares,
        a_level_that_is_missing,
    ],
)
def test_counts_that_do_not_fit_together_are_refused(
    storyteller: Storyteller, tmp_path: Path, damage: Callable[[Arrays], None]
) -> None:
    save_model(storyteller.model(), tmp_path)
    arrays = load_file(tmp_path / FILE)
    damage(arrays)
    save_file(arrays, tmp_path / FILE)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(tmp_path)
