"""Every loss in chunks is held to its definition in chunks of several sizes, in each precision."""

import pytest
import torch

in_both_precisions = pytest.mark.parametrize(
    ("precision", "loss_error", "gradient_error"), [(torch.float32, 1e-6, 1e-6), (torch.bfloat16, 1e-3, 1e-2)]
)
in_several_chunks_and_in_one = pytest.mark.parametrize("rows_at_once", [7, 256])
in_each_precision = pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
