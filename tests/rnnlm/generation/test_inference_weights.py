"""The generation loop needs a fixed number of torch operators for each token.

benchmarks/generate.py measures the time.
"""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_ids
from rnnlm.models.elman import ElmanCell
from rnnlm.models.model_factory import build_model
from tests.configs import plain_model

NEVER = -1  # No model chooses this id, so that no text ends before its maximum length.


class Operators(TorchDispatchMode):
    """A counter of torch's operators by name and by the shape of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = operator(*args, **(kwargs or {}))
        shape = tuple(result.shape) if isinstance(result, torch.Tensor) else ()
        self.calls[operator.overloadpacket.__name__, shape] += 1
        return result


def operators(weights: InferenceWeights, tokens: int) -> Counter[tuple[str, tuple[int, ...]]]:
    with Operators() as counted:
        continue_ids(weights, [2], Sampling(maximum_tokens=tokens, temperature=0), NEVER)
    return counted.calls


class HalvedCell(ElmanCell):
    """A custom cell that is a subclass of ElmanCell."""

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output, state = super().step(x, state)
        return output / 2, state

    def sequence(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs, last = super().sequence(x, state)
        return outputs / 2, last


def test_a_cell_derived_from_ours_generates_by_its_own_formula() -> None:
    model = build_model(plain_model({"hidden_size": 8, "kind": f"{__name__}:HalvedCell"}), 40, seed=0).eval()
    ids = continue_ids(InferenceWeights(model), [2], Sampling(maximum_tokens=12, temperature=0), NEVER)
    with torch.inference_mode():
        hidden, _ = model.hidden(torch.tensor([[2, *ids]]))
        likeliest = model.logits(hidden[0]).argmax(dim=-1).tolist()
    assert ids == likeliest[: len(ids)]


@pytest.mark.parametrize("layers", [1, 3])
def test_the_operators_for_each_token_do_not_grow_with_the_length(layers: int) -> None:
    model = build_model(plain_model({"hidden_size": 8, "layers": layers, "residual": False}), 40, seed=0)
    weights = InferenceWeights(model)
    of_10, of_20, of_210 = (operators(weights, tokens) for tokens in (10, 20, 210))
    of_ten_tokens = of_20 - of_10
    # Two hundred more tokens need twenty times as many operators as ten more tokens, and no operator has a larger
    # result.
    assert of_210 - of_10 == Counter({call: 20 * count for call, count in of_ten_tokens.items()})
    products = sum(count for (name, _), count in of_ten_tokens.items() if "mm" in name)
    # Each token has the products h U for each layer, x W for each layer except the lowest (it uses a table), and the
    # head.
    assert products == 10 * (2 * layers)
    assert sum(of_ten_tokens.values()) <= 10 * (3 * layers + 8)
