"""Cases in which losses are compared with their definitions: several chunk sizes, precisions and numbers of targets."""

import pytest
import torch

in_both_precisions = pytest.mark.parametrize(
    ("precision", "loss_error", "gradient_error"), [(torch.float32, 1e-6, 1e-6), (torch.bfloat16, 1e-3, 1e-2)]
)
in_several_chunks_and_in_one = pytest.mark.parametrize("rows_at_once", [7, 256])
in_each_precision = pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
TEXT_SHARE = 0.4  # The weight of a token's first target, if it has several.
with_one_target_and_several = pytest.mark.parametrize("target_count", [1, 3])


def with_targets(target_ids: torch.Tensor, count: int) -> torch.Tensor:
    """Return the targets, (b, t), or with two additional ones if `count` is 3, (b, t, 3).

    One of the additional targets equals the first target.
    """
    if count == 1:
        return target_ids
    others = torch.where(target_ids == 0, 0, 3 + target_ids * 7 % 30)
    return torch.stack([others, target_ids, target_ids], dim=-1)
