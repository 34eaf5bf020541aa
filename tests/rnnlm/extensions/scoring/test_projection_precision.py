"""The output layer's precision for rare classes depends on the processor. It is part of the output's provenance."""

import pytest
import torch

from rnnlm.extensions.scoring.document_scores import chosen_tail_dtype
from rnnlm.extensions.scoring.score_output import read_provenance
from tests.rnnlm.extensions.scoring.conftest import Configure, Score


@pytest.mark.parametrize(
    ("processor", "wanted", "precision"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, "auto", torch.bfloat16),
        ({"architecture": "aarch64", "bf16": True}, "auto", torch.bfloat16),
        ({"avx2": True, "avx512_bf16": False}, "auto", torch.float32),
        ({"avx512_bf16": True}, "float32", torch.float32),
        ({"avx2": True}, "bfloat16", torch.bfloat16),
    ],
)
def test_bfloat16_is_for_processors_that_have_it_unless_one_is_named(
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    processor: dict[str, object],
    wanted: str,
    precision: torch.dtype,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: processor)
    assert chosen_tail_dtype(configure(precision=wanted)) == precision


def test_scores_of_the_other_precision_are_other_scores(score: Score) -> None:
    exact, fast = score(precision="float32"), score(precision="bfloat16")
    assert exact.key != fast.key
    assert not fast.skipped
    assert fast.output is not None
    assert (read_provenance(fast.output) or {})["tail"] == "torch.bfloat16"
    # The precision has no effect here, because all classes of the toy vocabulary are frequent.
    assert fast.totals.log_probability == pytest.approx(exact.totals.log_probability, rel=1e-6)
