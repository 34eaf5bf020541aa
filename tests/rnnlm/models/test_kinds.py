"""Every kind of model: its definition, step by step, and its fast form are one function; no kind sees the future."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from rnnlm.config import ModelKind
from rnnlm.models.cell import Cell
from rnnlm.models.gru import GRUCell
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.lstm import LSTMCell
from rnnlm.models.min_gru import MinGRUCell
from rnnlm.models.min_lstm import MinLSTMCell
from rnnlm.models.parallel_scan import parallel_scan
from rnnlm.models.transformer import TransformerBlock, feed_forward_size
from tests.configs import new_model

KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
VOCABULARY = 11


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fill(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        parameter.data = 0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


def model_of(kind: ModelKind, **settings: Any) -> LanguageModel:
    attention = {"heads": 2, "attention_window": 4} if kind == "transformer" else {}
    model = new_model(VOCABULARY, 8, kind=kind, **{"layers": 2, "embedding_size": 6} | attention | settings).double()
    fill(model)
    return model.eval()


IDS = torch.tensor([[2, 4, 5, 6, 3, 7, 8, 9, 10], [2, 9, 9, 4, 10, 5, 7, 3, 4]])


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_is_the_whole_text(kind: ModelKind) -> None:
    """In values and gradients, from a state that has been carried in."""
    results = []
    for by_steps in (False, True):
        model = model_of(kind)
        _, state = model(IDS[:, :2])
        assert state.shape == (2, 2, model.stack.state_size)
        if by_steps:
            outputs = []
            for token in IDS[:, 2:].unbind(dim=1):
                logits, state = model(token[:, None], state)
                outputs.append(logits)
            logits = torch.cat(outputs, dim=1)
        else:
            logits, state = model(IDS[:, 2:], state)
        logits[..., [1, *range(3, VOCABULARY)]].square().mean().backward()
        results.append((logits, state, [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_is_the_fast_form(kind: ModelKind) -> None:
    results = []
    for backend in ("loop", "fused"):
        model = model_of(kind, backend=backend)
        logits, state = model(IDS)
        logits[..., 4:].square().mean().backward()
        with torch.no_grad():
            again, _ = model(IDS)
        results.append((logits, again, state, [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("kind", KINDS)
def test_no_output_depends_on_a_later_token(kind: ModelKind) -> None:
    model = model_of(kind)
    embedded = model.embedding(IDS).detach().requires_grad_()
    outputs, _ = model.stack(embedded)
    for time in range(IDS.shape[1]):
        (gradient,) = torch.autograd.grad(outputs[:, time].square().sum(), embedded, retain_graph=True)
        assert gradient[:, time].abs().min() > 0
        assert not gradient[:, time + 1 :].any()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind: ModelKind) -> None:
    """On the left with a mask, and on the right for the tokens before it."""
    model = model_of(kind)
    expected, last = model(IDS[:1, :5])
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), IDS[:1, :5]], dim=1)
    mask = (padded != 0).long()
    logits, state = model(padded, mask=mask)
    torch.testing.assert_close(logits[:, 3:], expected)
    torch.testing.assert_close(state, last)
    right, _ = model(torch.cat([IDS[:1, :5], torch.zeros(1, 3, dtype=torch.int64)], dim=1))
    torch.testing.assert_close(right[:, :5], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_zeros_is_the_start_of_a_text(kind: ModelKind) -> None:
    model = model_of(kind)
    torch.testing.assert_close(model(IDS, model.stack.initial_state(2)), model(IDS))


@pytest.mark.parametrize(("ours", "theirs"), [(GRUCell, nn.GRU), (LSTMCell, nn.LSTM)])
def test_gated_cells_are_those_of_torch(ours: type[GRUCell | LSTMCell], theirs: type[nn.RNNBase]) -> None:
    """By the definition and by the kernel, in values and gradients."""
    cell = ours(3, 5)
    fill(cell)
    reference = theirs(3, 5, batch_first=True).double()  # type: ignore[call-arg]
    parameters = dict(reference.named_parameters())
    parameters["weight_ih_l0"].data = cell.W.data.t().clone()
    parameters["weight_hh_l0"].data = cell.U.data.t().clone()
    parameters["bias_ih_l0"].data = cell.b.data.clone()
    parameters["bias_hh_l0"].data.zero_()
    if isinstance(cell, GRUCell):
        parameters["bias_hh_l0"].data[10:] = cell.c.data
    x, state = drawn(4, 7, 3), drawn(4, cell.state_size, seed=3)
    parts = tuple(part[None].contiguous() for part in state.split(5, dim=1))
    expected, last = reference(x, parts if len(parts) == 2 else parts[0])
    expected_state = torch.cat([part[0] for part in last], dim=1) if len(parts) == 2 else last[0]
    (expected.square().sum() + expected_state.sum()).backward()
    for run in (cell.loop, cell.sequence):
        cell.zero_grad()
        outputs, after = run(x, state)
        torch.testing.assert_close(outputs, expected)
        torch.testing.assert_close(after, expected_state)
        (outputs.square().sum() + after.sum()).backward()
        torch.testing.assert_close(cell.W.grad, parameters["weight_ih_l0"].grad.t())
        torch.testing.assert_close(cell.U.grad, parameters["weight_hh_l0"].grad.t())
        torch.testing.assert_close(cell.b.grad, parameters["bias_ih_l0"].grad)
        if isinstance(cell, GRUCell):
            torch.testing.assert_close(cell.c.grad, parameters["bias_hh_l0"].grad[10:])


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13])
def test_the_scan_is_the_recurrence(steps: int) -> None:
    keep, add, h = torch.sigmoid(drawn(2, steps, 3)), drawn(2, steps, 3, seed=4), drawn(2, 3, seed=5)
    expected = []
    state = h
    for time in range(steps):
        state = keep[:, time] * state + add[:, time]
        expected.append(state)
    torch.testing.assert_close(parallel_scan(keep, add, h), torch.stack(expected, dim=1))


def test_minimal_cells_by_hand() -> None:
    """One unit, as the paper's appendix writes them."""
    x, h = torch.tensor([[0.5]]), torch.tensor([[0.25]])

    def sigmoid(value: float) -> float:
        return 1 / (1 + 2.718281828459045**-value)

    gru = MinGRUCell(1, 1)
    gru.W.data, gru.b.data = torch.tensor([[1.0, 2.0]]), torch.tensor([0.5, -2.0])
    z, candidate = sigmoid(1.0), sigmoid(-1.0)  # x W + b = 1 and -1
    assert gru.step(x, h)[0].item() == pytest.approx((1 - z) * 0.25 + z * candidate)
    lstm = MinLSTMCell(1, 1)
    lstm.W.data, lstm.b.data = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([0.5, -2.0, 0.5])
    f, i, candidate = sigmoid(1.0), sigmoid(-1.0), 2.0 + 0.5
    assert lstm.step(x, h)[0].item() == pytest.approx(f / (f + i) * 0.25 + i / (f + i) * candidate)


@pytest.mark.parametrize("steps", [1, 4, 9])  # the window holds 4 tokens
def test_the_transformer_is_mistral_with_the_same_weights(steps: int) -> None:
    """Llama with a sliding window. In values and gradients; transformers normalizes in float32."""
    close = {"atol": 1e-5, "rtol": 1e-4}
    from transformers.models.mistral import MistralConfig, MistralModel

    settings = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-6}
    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        intermediate_size=feed_forward_size(8),
        sliding_window=4,
        rope_parameters={"rope_theta": 10_000.0, "rope_type": "default"},
        attn_implementation="eager",
        **settings,
    )
    reference = MistralModel(config).double().eval()
    model = model_of("transformer", embedding_size=None)
    names = {
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "output": "self_attn.o_proj",
        "attention_norm": "input_layernorm",
        "feed_forward_norm": "post_attention_layernorm",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
    }
    pairs = [(model.embedding.weight, reference.embed_tokens.weight), (norm_of(model), reference.norm.weight)]
    for cell, layer in zip(model.stack.cells, reference.layers, strict=True):
        pairs += [(cell.get_parameter(f"{a}.weight"), layer.get_parameter(f"{b}.weight")) for a, b in names.items()]
    for mine, other in pairs:
        other.data = mine.data.clone()
    outputs, _ = model.stack(model.embedding(IDS[:, :steps]))
    expected = reference(IDS[:, :steps]).last_hidden_state
    torch.testing.assert_close(outputs, expected, **close)
    outputs.square().sum().backward()
    expected.square().sum().backward()
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, **close)


def norm_of(model: LanguageModel) -> Tensor:
    return model.stack.output_norm.get_parameter("weight")


def test_a_block_remembers_no_more_than_its_window() -> None:
    block: Cell = TransformerBlock(8, 8, heads=2, window=3)
    fill(block)
    x = drawn(1, 9, 8)
    outputs, state = block.sequence(x, None)
    alone, last = block.sequence(x[:, -3:], None)  # a single layer reaches back 2 tokens
    torch.testing.assert_close(outputs[:, -1], alone[:, -1])
    torch.testing.assert_close(state, last)
