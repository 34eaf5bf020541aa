"""An ensemble predicts the mean of its networks' probabilities. It is saved as one model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlm.errors import ModelError
from rnnlm.evaluation.batch_losses import nll_of_each_batch
from rnnlm.evaluation.shared_prefix_scoring import nll_of_rows_sharing_prefixes
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.models.ensemble import Ensemble, joined
from rnnlm.models.model_factory import load_model, load_network, save_model
from rnnlm.sequences.batches import padded
from rnnlm.sequences.segmentation import rows_from_lists
from tests.configs import random_model

VOCABULARY = 50
SHARES = np.array([0.5, 0.3, 0.2])
IDS = torch.tensor([[2, 5, 9, 7, 30, 5, 5, 8], [2, 6, 6, 6, 12, 49, 4, 10]])


def ensemble_of_three() -> Ensemble:
    """Return an ensemble of networks of three kinds, whose states have different shapes."""
    return joined([random_model(kind, VOCABULARY) for kind in ("elman", "lstm", "transformer")], SHARES).eval()


def mean_probabilities(ensemble: Ensemble) -> torch.Tensor:
    """Return the mean of the networks' probabilities with shape (b, t, V), computed by definition."""
    parts = [network(IDS)[0].double().softmax(-1) for network in ensemble.networks]
    return sum(part * share for part, share in zip(parts, SHARES.tolist(), strict=True))  # type: ignore[return-value]


@torch.inference_mode()
def test_the_probability_is_the_mean_of_the_networks() -> None:
    ensemble = ensemble_of_three()
    logits, _ = ensemble(IDS)
    expected = mean_probabilities(ensemble)
    torch.testing.assert_close(logits.double().exp(), expected, rtol=1e-4, atol=1e-6)
    assert expected.sum(-1).numpy() == pytest.approx(1)
    assert (expected - ensemble.networks[0](IDS)[0].softmax(-1)).abs().max() > 0.01


@torch.inference_mode()
def test_the_state_carries_all_networks_from_window_to_window() -> None:
    ensemble = ensemble_of_three()
    whole, last = ensemble(IDS)
    first, state = ensemble(IDS[:, :3])
    rest, after = ensemble(IDS[:, 3:], state)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), whole, rtol=1e-4, atol=1e-5)
    assert after.shape == last.shape


@torch.inference_mode()
def test_text_is_written_step_by_step_with_the_same_probabilities() -> None:
    ensemble = ensemble_of_three()
    stepper = InferenceWeights(ensemble).stepper(1)
    for row in IDS.tolist():
        _, state = stepper.read(row[:3], None)
        stepper.join(state)
    stepper.keep([1])
    stepped = [stepper.step([token_id]).clone() for token_id in IDS[1, 3:].tolist()]
    expected = mean_probabilities(ensemble)[1, 3:].log()
    torch.testing.assert_close(torch.cat(stepped).double(), expected, rtol=1e-4, atol=1e-4)


def test_losses_are_those_of_the_mean_of_probabilities() -> None:
    ensemble = ensemble_of_three()
    rows = rows_from_lists(IDS.tolist())
    with torch.inference_mode():
        targets = mean_probabilities(ensemble)[:, :-1].gather(2, IDS[:, 1:, None])[..., 0]
    expected = pytest.approx(-targets.log().numpy().ravel(), rel=1e-4)
    assert nll_of_rows_sharing_prefixes(ensemble, rows, 64) == expected
    assert np.concatenate([*nll_of_each_batch(ensemble, padded(rows, 1))]) == expected


def test_a_saved_ensemble_is_loaded_with_its_shares(tmp_path: Path) -> None:
    ensemble = ensemble_of_three()
    save_model(ensemble, tmp_path)
    again = load_model(tmp_path)
    assert isinstance(again, Ensemble)
    assert torch.equal(again.shares, ensemble.shares)
    assert again.shares.tolist() == pytest.approx(SHARES.tolist())
    with torch.inference_mode():
        assert torch.equal(again(IDS)[0], ensemble(IDS)[0])
    with pytest.raises(ModelError, match="an ensemble of 3 networks"):
        load_network(tmp_path)
