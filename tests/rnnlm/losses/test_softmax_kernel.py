"""The cross-entropy kernel agrees with the definition of the loss. Without a GPU it runs in Triton's interpreter."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.losses import projection
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss, exact_cross_entropy, target_shares
from rnnlm.losses.softmax_kernel import subtract_targets
from tests.configs import new_model
from tests.rnnlm.losses.loss_cases import TEXT_SHARE, with_targets

LOSS_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The numbers of rows, classes and targets.
ROW_SHAPES = [(1, 7, 1), (3, 7, 2), (5, 1000, 9), (2, 40_000, 1), (2, 70_000, 3)]


def expected_of(logits: Tensor, targets: Tensor, text_share: float) -> tuple[Tensor, Tensor]:
    """Return the loss and the gradient of each row, computed in float64."""
    leaf = logits.double().requires_grad_()
    losses = [functional.cross_entropy(leaf, one, ignore_index=0, reduction="none") for one in targets.unbind(dim=1)]
    nll = torch.stack(losses, dim=1) @ target_shares(targets, text_share).double()
    return nll.detach(), torch.autograd.grad(nll.sum(), leaf)[0]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("shape", ROW_SHAPES, ids=str)
def test_a_row_becomes_softmax_minus_targets(shape: tuple[int, int, int], scale: float, precision: torch.dtype) -> None:
    rows, classes, count = shape
    generator = torch.Generator().manual_seed(0)
    logits = (scale * torch.randn(rows, classes, generator=generator)).to(precision)
    logits[:, [0, 2]] = float("-inf")  # Classes 0 and 2, <pad> and <bos>, are never predicted.
    targets = torch.randint(3, classes, (rows, count), generator=generator)
    targets[0] = targets[0, 0]  # All targets of this row are the same.
    targets[-1] = 0 if rows > 1 else targets[-1]  # The last row is padding.
    nll, gradient = expected_of(logits.float(), targets, TEXT_SHARE)
    found, found_nll = logits.to(LOSS_DEVICE, copy=True), torch.empty(rows, device=LOSS_DEVICE)
    subtract_targets(found, targets.to(LOSS_DEVICE), found_nll, TEXT_SHARE)
    # The tolerance for bfloat16 is large, because the interpreter truncates bits instead of rounding.
    error = 1e-5 if precision == torch.float32 else 8e-3
    torch.testing.assert_close(found_nll.cpu().double(), nll, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.cpu().double(), gradient, rtol=error, atol=1e-6)


@pytest.mark.parametrize("target_count", [1, 3])
def test_the_loss_with_the_kernel_is_the_definition(target_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss computed with the kernel equals its definition. The last of three chunks is smaller than the others."""
    monkeypatch.setattr("rnnlm.losses.exact.has_softmax_kernel", lambda device: True)
    for name in ("CPU_CHUNK_LOGITS", "GPU_CHUNK_LOGITS"):
        monkeypatch.setattr(projection, name, 12 * 50)
    model = new_model(50, 16).to(LOSS_DEVICE)
    generator = torch.Generator().manual_seed(1)
    target_ids = torch.randint(3, 50, (5, 6), generator=generator)
    target_ids[1, 3:] = 0
    target_ids = with_targets(target_ids, target_count).to(LOSS_DEVICE)
    rows = torch.randn(5, 6, 16, generator=generator).to(LOSS_DEVICE)
    losses: list[Loss] = [
        partial(exact_cross_entropy, text_share=TEXT_SHARE),
        ChunkedCrossEntropy(torch.float32, TEXT_SHARE),
    ]
    results = []
    for loss in losses:
        hidden = rows.clone().requires_grad_()
        model.zero_grad()
        value = loss(model, hidden, target_ids, None)
        (3 * value).backward()
        results.append((value.detach(), hidden.grad, model.head.weight.grad, model.head.bias.grad))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
