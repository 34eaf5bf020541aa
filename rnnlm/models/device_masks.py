"""Dropout masks drawn on a GPU by a counter-based generator. Each value depends only on seed, row and unit.

Hence resumed runs and any number of processes draw the same masks, and nothing is copied to the GPU. The generator is
Triton's Philox (Salmon et al. 2011). Without Triton and a C compiler, masks are drawn on the CPU.
"""

import torch
from torch import Tensor

from rnnlm.models.diagonal_recurrence import has_compiler

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

VALUES_AT_ONCE = 1_024


def draws_masks(device: torch.device) -> bool:
    return device.type == "cuda" and triton is not None and has_compiler()


def drawn_mask(rows: range, columns: int, share: float, seed: int, device: torch.device) -> Tensor:
    """Return factors of shape (rows, columns), float32: 0 with probability `share`, otherwise 1 / (1 - share).

    `rows` are the indices of the rows in the whole batch.
    """
    mask = torch.empty(len(rows), columns, device=device)
    if mask.numel():
        # The seed always has 64 bits, because Triton would compile a second kernel for a smaller integer type.
        wide = seed % (1 << 62) + (1 << 62)
        grid = (triton.cdiv(mask.numel(), VALUES_AT_ONCE),)
        numbers = (rows.start, rows.step, columns, mask.numel())
        mask_kernel[grid](mask, wide, *numbers, share, 1.0 / (1.0 - share), VALUES_AT_ONCE)
    return mask


# Triton 3.6 compiles annotations and fails for names that it does not know, so the kernels have none.
if triton is not None:

    @triton.jit(do_not_specialize=["seed", "first_row", "row_step"])
    def mask_kernel(mask, seed, first_row, row_step, columns, count, share, factor, block: tl.constexpr):
        place = tl.program_id(0) * block + tl.arange(0, block)
        row = first_row + (place // columns) * row_step
        kept = tl.rand(seed, row * columns + place % columns) >= share
        tl.store(mask + place, tl.where(kept, factor, 0.0), place < count)
