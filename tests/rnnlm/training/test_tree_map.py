"""Tensors in a tree are found and replaced in one order."""

import torch

from rnnlm.models.dropout import Masks
from rnnlm.training.batch_loss import Draws
from rnnlm.training.optimizer_step import MicroBatch
from rnnlm.training.tree_map import list_tensors, map_tensors


def part() -> MicroBatch:
    masks = Masks(torch.ones(4), None, (torch.ones(2), torch.ones(3)), None, ())
    return MicroBatch(
        torch.zeros(2, 5), torch.zeros(2, 5), None, Draws(masks, torch.arange(6)), torch.tensor(0.5), None
    )


def test_every_tensor_is_found_once_in_order() -> None:
    shapes = [tuple(tensor.shape) for tensor in list_tensors([part(), part()])]
    assert shapes == 2 * [(2, 5), (2, 5), (4,), (2,), (3,), (6,), ()]


def test_a_changed_tree_has_new_tensors_in_the_same_places() -> None:
    before = part()
    after = map_tensors(before, lambda tensor: tensor + 1)
    assert after.state is None
    assert after.draws.masks is not None
    assert after.draws.masks.inputs is None
    for one, other in zip(list_tensors(before), list_tensors(after), strict=True):
        assert torch.equal(one + 1, other)
    assert float(before.share) == 0.5  # type: ignore[arg-type]
