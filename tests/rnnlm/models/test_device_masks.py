"""The value that a kernel draws for a mask depends only on the seed, the row and the unit.

Without a GPU, the kernel runs in Triton's interpreter.
"""

import pytest
import torch

from rnnlm.models import dropout as dropout_module
from rnnlm.models.device_masks import drawn_mask
from rnnlm.models.dropout import Dropout, draw_masks
from tests.configs import random_model

MASK_DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_a_share_is_zero_and_the_rest_is_scaled_up() -> None:
    for share in (0.0, 0.1, 0.5):
        mask = drawn_mask(range(50), 130, share, 3, MASK_DEVICE)
        torch.testing.assert_close(mask[mask > 0], torch.full_like(mask[mask > 0], 1 / (1 - share)))
        assert float(mask.mean()) == pytest.approx(1.0, abs=0.06)
        assert float(mask.eq(0).float().mean()) == pytest.approx(share, abs=0.03)


def test_a_row_has_the_same_mask_wherever_it_is_drawn() -> None:
    whole = drawn_mask(range(12), 70, 0.4, -5, MASK_DEVICE)
    assert torch.equal(drawn_mask(range(1, 12, 3), 70, 0.4, -5, MASK_DEVICE), whole[1::3])
    assert torch.equal(drawn_mask(range(7, 9), 70, 0.4, -5, MASK_DEVICE), whole[7:9])
    assert not torch.equal(drawn_mask(range(12), 70, 0.4, -4, MASK_DEVICE), whole)
    assert not torch.equal(whole[0], whole[1])


def test_all_kinds_of_masks_have_the_shapes_of_a_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model("elman", 30, layers=3).train().to(MASK_DEVICE)
    kinds = Dropout(words=0.1, inputs=0.2, layers=0.2, outputs=0.2, recurrent=0.3)
    masks = []
    for by_kernel in (False, True):
        monkeypatch.setattr(dropout_module, "draws_masks", lambda device, by_kernel=by_kernel: by_kernel)
        masks.append(draw_masks(model, kinds, range(1, 9, 2), torch.Generator().manual_seed(4)))
    plain, drawn = masks
    for name in ("words", "inputs", "outputs"):
        assert getattr(drawn, name).shape == getattr(plain, name).shape
    assert [one.shape for one in drawn.layers] == [one.shape for one in plain.layers]
    assert {name: one.shape for name, one in drawn.recurrent.items()} == {
        name: one.shape for name, one in plain.recurrent.items()
    }
    again = draw_masks(model, kinds, range(1, 9, 2), torch.Generator().manual_seed(4).clone_state())
    assert torch.equal(again.inputs, drawn.inputs)
