"""The gradient norms of a network with one unit equal powers of its recurrent weight u.

The gradient norms of larger networks equal the results of a slow implementation.
"""

import pytest
import torch
from torch.nn import functional

from rnnlm.config import ModelKind
from rnnlm.evaluation.gradient_norms import gradient_norms, input_gradient_norms
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from tests.configs import KINDS, new_model, plain_model, random_model


def one_unit(u: float) -> LanguageModel:
    """Return a network with one unit, h' = relu(x + u h), where x = 1 for every token.

    The state is always positive, so each step back multiplies the gradient by u.
    """
    model = new_model(5, 1, nonlinearity="relu")
    with torch.no_grad():
        model.embedding.weight.fill_(1.0)
        model.stack.cells[0].W.fill_(1.0)
        model.stack.cells[0].U.fill_(u)
        model.head.weight.copy_(torch.tensor([[0.0], [0.0], [0.0], [0.0], [2.0]]))
        model.head.bias.zero_()
    return model


@pytest.mark.parametrize("u", [0.5, 1.0, 1.5])
def test_one_linear_unit_has_a_gradient_of_u_to_the_distance(u: float) -> None:
    model = one_unit(u)
    norms = gradient_norms(model, torch.full((1, 6), 4), torch.tensor([3]))
    # h after 6 tokens is 1 + u + … + u⁵. The logits are (never, 0, never, 0, 2 h), and the target is id 3. Hence loss =
    # log(2 + exp(2 h)), and its derivative with respect to h is 2 exp(2 h) / (2 + exp(2 h)).
    power = torch.tensor(2 * sum(u**k for k in range(6))).exp()
    at_the_loss = float(2 * power / (2 + power))
    assert norms.shape == (1, 6)
    assert norms[0].tolist() == pytest.approx([at_the_loss * u**k for k in range(6)], rel=1e-5)


@pytest.fixture
def network() -> LanguageModel:
    settings = plain_model({"hidden_size": 5, "layers": 2, "residual": False})
    return build_model(settings, 12, seed=1)


@pytest.fixture
def windows() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(4, 12, (3, 8), generator=torch.Generator().manual_seed(0))
    return ids[:, :-1], ids[:, -1]


def test_norms_equal_the_gradients_at_a_detached_state(
    network: LanguageModel, windows: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """The norms equal those of a slow implementation, which detaches the state at each distance from the loss.

    It computes the gradient of the loss with respect to this state.
    """
    token_ids, target_ids = windows
    norms = gradient_norms(network, token_ids, target_ids)
    for distance in range(1, token_ids.shape[1]):
        before, after = token_ids[:, :-distance], token_ids[:, -distance:]
        state = network(before)[1].detach().requires_grad_()
        logits, _ = network(after, state)
        functional.cross_entropy(logits[:, -1], target_ids, reduction="sum").backward()
        assert state.grad is not None
        # Only the top layer is compared, because a lower layer also reaches the loss through the layer above at the
        # same time step.
        assert norms[-1, distance] == pytest.approx(float(state.grad[:, -1].norm(dim=-1).mean()), rel=1e-4)


def test_residual_gradients_also_bypass_the_layer_above(
    windows: tuple[torch.Tensor, torch.Tensor],
) -> None:
    token_ids, target_ids = windows
    settings = plain_model({"hidden_size": 8, "layers": 2, "residual": True})
    network = build_model(settings, 30, seed=0)
    lower, upper = network.stack.cells
    before = network(token_ids[:, :-1])[1].detach()
    h = lower(network.embedding(token_ids[:, -1]), before[:, 0]).detach().requires_grad_()
    logits = network.logits(h + upper(0.2 * network.stack.norms[0](h), before[:, 1]) / 2)
    functional.cross_entropy(logits, target_ids, reduction="sum").backward()
    assert h.grad is not None
    norms = gradient_norms(network, token_ids, target_ids)
    assert norms[0, 0] == pytest.approx(float(h.grad.norm(dim=-1).mean()), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_input_gradients_are_the_slopes_of_the_loss_for_every_kind(
    windows: tuple[torch.Tensor, torch.Tensor], kind: ModelKind
) -> None:
    """The gradients of the inputs equal central differences in float64, for each number that the network reads."""
    model, epsilon = random_model(kind, 12, attention_window=4).double(), 1e-6
    slopes = []
    for token_ids, target_id in zip(*windows, strict=True):
        embedded = model.embedding(token_ids).detach()
        moved = epsilon * torch.eye(embedded.numel(), dtype=torch.float64).view(-1, *embedded.shape)
        with torch.no_grad():
            up, down = (
                functional.cross_entropy(
                    model.logits(model.readout(model.stack(embedded + sign * moved)[0][:, -1])),
                    target_id.expand(len(moved)),
                    reduction="none",
                )
                for sign in (1, -1)
            )
        slopes.append(((up - down) / (2 * epsilon)).view_as(embedded).norm(dim=-1).flip(0))
    expected = torch.stack(slopes).mean(dim=0)
    torch.testing.assert_close(input_gradient_norms(model, *windows), expected, rtol=1e-5, atol=1e-7)
    assert (expected[:4] > 1e-4).all()
