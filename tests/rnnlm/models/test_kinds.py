"""The fast implementation of every kind of model agrees with the definition. No output depends on later tokens."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from rnnlm.config import ModelKind, TrainingConfig
from rnnlm.errors import ConfigError
from rnnlm.models.block import feed_forward_size
from rnnlm.models.elman import ElmanCell
from rnnlm.models.feed_forward import FeedForwardCell
from rnnlm.models.gru import GRUCell
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.lstm import LSTMCell
from rnnlm.models.min_gru import MinGRUCell
from rnnlm.models.min_lstm import MinLSTMCell
from rnnlm.models.mlstm import CHUNK, MLSTMCell
from rnnlm.models.model_factory import build_model
from rnnlm.models.parallel_scan import parallel_scan
from rnnlm.models.slstm import SLSTMCell
from rnnlm.models.xlstm import XLSTMBlock
from rnnlm.training.optimizers import prepare_updates
from tests.configs import KINDS, new_model, plain_model

VOCABULARY = 11


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fill(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        parameter.data = 0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


def model_of(kind: ModelKind, **settings: Any) -> LanguageModel:
    heads = {"heads": 2, "attention_window": 4}
    model = new_model(VOCABULARY, 8, kind=kind, **{"layers": 2, "embedding_size": 6} | heads | settings).double()
    fill(model)
    return model.eval()


IDS = torch.tensor([[2, 4, 5, 6, 3, 7, 8, 9, 10], [2, 9, 9, 4, 10, 5, 7, 3, 4]])


@pytest.mark.parametrize("kind", KINDS)
def test_stepwise_reading_equals_one_pass(kind: ModelKind) -> None:
    """Single steps from a nonzero state give the same values and gradients as one pass over all tokens."""
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
def test_loop_and_fused_backend_agree(kind: ModelKind) -> None:
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
def test_training_in_bfloat16_rounds_the_products_of_layers_and_evaluation_does_not(kind: ModelKind) -> None:
    """Training in bfloat16 rounds the products of layers, but evaluation does not.

    GRU and LSTM are exceptions, because their kernels compute in float32.
    """
    results = []
    for precision in ("float32", "bfloat16"):
        model = model_of(kind).float()
        prepare_updates(model, TrainingConfig(precision=precision))
        outputs, _ = model.stack(drawn(2, 9, 6).float())
        outputs.square().mean().backward()
        with torch.no_grad():
            evaluated, _ = model.stack(drawn(2, 9, 6).float())
        gradients = parameters_to_vector(parameter.grad for parameter in model.stack.parameters())
        results.append((evaluated, outputs.detach(), gradients))
    (exact, *expected), (evaluated, *rounded) = results
    torch.testing.assert_close(evaluated, exact, rtol=0, atol=0)
    if kind in ("gru", "lstm"):
        torch.testing.assert_close(rounded, expected, rtol=0, atol=0)
        return
    for one, other in zip(rounded, expected, strict=True):
        assert 0 < float((one - other).norm() / other.norm()) < 0.02


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
    """Padding does not change the results of a row.

    Padding on the left has a mask, and padding on the right comes after all tokens.
    """
    model = model_of(kind)
    expected, last = model(IDS[:1, :5])
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), IDS[:1, :5]], dim=1)
    mask = (padded != 0).long()
    logits, state = model(padded, mask=mask)
    torch.testing.assert_close(logits[:, 3:], expected)
    torch.testing.assert_close(state, last)
    right, _ = model(torch.cat([IDS[:1, :5], torch.zeros(1, 3, dtype=torch.int64)], dim=1))
    torch.testing.assert_close(right[:, :5], expected)


@pytest.mark.parametrize(("ours", "theirs"), [(GRUCell, nn.GRU), (LSTMCell, nn.LSTM)])
def test_gated_cells_are_those_of_torch(ours: type[GRUCell | LSTMCell], theirs: type[nn.RNNBase]) -> None:
    """The definitions and kernels of GRU and LSTM agree with torch's modules in values and gradients."""
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
def test_the_scan_equals_the_recurrence(steps: int) -> None:
    keep, add, h = torch.sigmoid(drawn(2, steps, 3)), drawn(2, steps, 3, seed=4), drawn(2, 3, seed=5)
    expected = []
    state = h
    for time in range(steps):
        state = keep[:, time] * state + add[:, time]
        expected.append(state)
    torch.testing.assert_close(parallel_scan(keep, add, h), torch.stack(expected, dim=1))


def test_minimal_cells_by_hand() -> None:
    """The states of minimal GRU and LSTM agree with a calculation by hand from equations in the paper's appendix."""
    x, h = torch.tensor([[0.5]]), torch.tensor([[0.25]])

    def sigmoid(value: float) -> float:
        return 1 / (1 + 2.718281828459045**-value)

    gru = MinGRUCell(1, 1)
    gru.W.data, gru.b.data = torch.tensor([[1.0, 2.0]]), torch.tensor([0.5, -2.0])
    z, candidate = sigmoid(1.0), sigmoid(-1.0)  # The two columns of x W + b are 1 and -1.
    assert gru.step(x, h)[0].item() == pytest.approx((1 - z) * 0.25 + z * candidate)
    lstm = MinLSTMCell(1, 1)
    lstm.W.data, lstm.b.data = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([0.5, -2.0, 0.5])
    f, i, candidate = sigmoid(1.0), sigmoid(-1.0), 2.0 + 0.5
    assert lstm.step(x, h)[0].item() == pytest.approx(f / (f + i) * 0.25 + i / (f + i) * candidate)


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_a_feed_forward_network_is_one_layer_on_the_last_four_inputs(steps: int) -> None:
    """A feed-forward network equals one linear layer on the last four inputs.

    Inputs before the beginning of the text are zeros.
    """
    cell = FeedForwardCell(3, 5).double()
    fill(cell)
    x = drawn(2, steps, 3)
    before = torch.cat([torch.zeros(2, 3, 3, dtype=torch.float64), x], dim=1)
    # The matrix has the shape (4 · input, H). The newest input comes first.
    weights = torch.cat(cell.W.split(5, dim=1))
    expected = [torch.tanh(before[:, t : t + 4].flip(1).flatten(1) @ weights + cell.b) for t in range(steps)]
    for run in (cell.loop, cell.sequence):
        torch.testing.assert_close(run(x, None)[0], torch.stack(expected, dim=1))


@pytest.mark.parametrize("steps", [1, 4, 9])
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_transformer_is_that_of_transformers_with_the_same_weights(name: str, steps: int) -> None:
    """A Transformer agrees with the transformers library's Llama or Mistral with the same weights.

    Llama has unlimited attention, and Mistral has a window of 4 tokens. Values and gradients are equal. transformers
    normalizes in float32.
    """
    close = {"atol": 1e-5, "rtol": 1e-4}
    from transformers.models.llama import LlamaConfig, LlamaModel
    from transformers.models.mistral import MistralConfig, MistralModel

    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 8,
        "intermediate_size": feed_forward_size(8),
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 10_000.0, "rope_type": "default"},
        "attn_implementation": "eager",
    }
    if name == "llama":
        reference, window = LlamaModel(LlamaConfig(**settings)).double().eval(), 9
    else:
        reference, window = MistralModel(MistralConfig(sliding_window=4, **settings)).double().eval(), 4
    model = model_of("transformer", embedding_size=None, attention_window=window)
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


@pytest.mark.parametrize("steps", [1, 4, CHUNK + 1, 2 * CHUNK + 3])
def test_an_mlstm_block_is_that_of_transformers_with_the_same_weights(steps: int) -> None:
    """An mLSTM block agrees with the transformers library's block with the same weights, in steps and in chunks.

    Values and gradients are equal. The block begins with a carried state, which is float32 in transformers.
    """
    close = {"atol": 1e-5, "rtol": 1e-4}
    from transformers.models.xlstm import xLSTMConfig
    from transformers.models.xlstm.modeling_xlstm import xLSTMBlock

    reference = xLSTMBlock(
        xLSTMConfig(
            hidden_size=8,
            num_heads=2,
            qk_dim_factor=1.0,
            ffn_round_up_to_multiple_of=8,
            norm_reduction_force_float32=False,
            eps=0.0,
            gate_soft_cap=1e9,  # The soft cap is so high that it does not affect the gates.
        )
    ).double()
    block = XLSTMBlock(8, 8, heads=2, layer=0).double()
    fill(block)
    names = {
        "norm": "norm_mlstm",
        "cell.query": "mlstm_layer.q",
        "cell.key": "mlstm_layer.k",
        "cell.value": "mlstm_layer.v",
        "cell.input_gate": "mlstm_layer.igate_preact",
        "cell.forget_gate": "mlstm_layer.fgate_preact",
        "cell.output_gate": "mlstm_layer.ogate_preact",
        "cell.output": "mlstm_layer.out_proj",
        "feed_forward_norm": "norm_ffn",
        "gate": "ffn.proj_up_gate",
        "up": "ffn.proj_up",
        "down": "ffn.proj_down",
    }
    parameters = {f"{name}.weight": f"{theirs}.weight" for name, theirs in names.items()}
    parameters |= {f"cell.{gate}_gate.bias": f"mlstm_layer.{gate[0]}gate_preact.bias" for gate in ("input", "forget")}
    parameters["cell.gain"] = "mlstm_layer.multihead_norm.weight"
    assert parameters.keys() == dict(block.named_parameters()).keys()
    for name, theirs in parameters.items():
        reference.get_parameter(theirs).data = block.get_parameter(name).data.clone()
    before, x = drawn(3, 5, 8), drawn(3, steps, 8, seed=3)
    expected, (C, n, m) = reference(x, reference(before)[1])
    expected.square().sum().backward()
    # This module divides the keys by √d, as in the paper, and transformers divides the queries.
    expected_state = torch.cat([C.flatten(1) / 2, n.flatten(1) / 2, m.flatten(1)], dim=1)
    for run in (block.loop, block.sequence):
        block.zero_grad()
        outputs, state = run(x, run(before, None)[1])
        torch.testing.assert_close(outputs, expected, **close)
        torch.testing.assert_close(state, expected_state.double(), **close)
        outputs.square().sum().backward()
        for name, theirs in parameters.items():
            torch.testing.assert_close(block.get_parameter(name).grad, reference.get_parameter(theirs).grad, **close)


def test_an_slstm_is_its_formulas_without_stabilization() -> None:
    """The sLSTM's values and gradients agree with the paper's equations 8 to 14, with a separate U for each head."""
    cell = SLSTMCell(6, heads=2).double()
    fill(cell)
    x = drawn(2, 7, 6)
    W, b = cell.W.detach().clone().requires_grad_(), cell.b.detach().clone().requires_grad_()
    U = cell.U.detach().clone().requires_grad_()
    rows, ends = [], []
    for text in x:
        h, c, n = (torch.zeros(6, dtype=torch.float64) for _ in range(3))
        for token in text:
            recurrent = torch.zeros(24, dtype=torch.float64)
            for head in range(2):
                for gate in range(4):
                    own = slice(3 * head, 3 * head + 3)
                    columns = slice(6 * gate + 3 * head, 6 * gate + 3 * head + 3)
                    recurrent[columns] = h[own] @ U[head][:, 3 * gate : 3 * gate + 3]
            i, f, z, o = (token @ W + recurrent + b).split(6)
            c = torch.sigmoid(f) * c + torch.exp(i) * torch.tanh(z)
            n = torch.sigmoid(f) * n + torch.exp(i)
            h = torch.sigmoid(o) * c / n
            rows.append(h)
        ends.append(torch.stack([c, n]))
    memories, normalizers = torch.stack(ends, dim=1)
    heads = torch.stack(rows).view(2, 7, 2, 3)
    centred = heads - heads.mean(dim=-1, keepdim=True)
    scaled = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()
    expected = scaled.flatten(2) * cell.gain.detach()
    expected.square().sum().backward()
    for run in (cell.loop, cell.sequence):
        cell.zero_grad()
        outputs, state = run(x, None)
        torch.testing.assert_close(outputs, expected)
        torch.testing.assert_close(state[:, :6], heads[:, -1].flatten(1))
        for part, unscaled in zip(state[:, 6:18].split(6, dim=1), (memories, normalizers), strict=True):
            torch.testing.assert_close(part * state[:, 18:].exp(), unscaled)
        outputs.square().sum().backward()
        for name, other in {"W": W, "U": U, "b": b}.items():
            torch.testing.assert_close(cell.get_parameter(name).grad, other.grad)


@pytest.mark.parametrize("cell_type", [MLSTMCell, SLSTMCell])
@pytest.mark.parametrize("bias", [-300.0, -20.0, 20.0, 300.0])
def test_exponential_gates_of_any_size_are_safe(cell_type: type[MLSTMCell | SLSTMCell], bias: float) -> None:
    """Exponential gates of any size have finite gradients and the same values as in float64.

    exp(300) overflows in float32, and exp(-300) is 0.
    """
    cell = cell_type(8, 2)
    fill(cell)
    with torch.no_grad():
        if isinstance(cell, MLSTMCell):
            cell.input_gate.bias.fill_(bias)
        else:
            cell.b[:8] = bias
    x = drawn(2, CHUNK + 5, 8)
    expected, _ = cell.loop(x, None)
    outputs, _ = cell.float().sequence(x.float(), None)
    torch.testing.assert_close(outputs, expected.float(), atol=1e-3, rtol=1e-3)
    outputs.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in cell.parameters())


def test_an_xlstm_begins_by_remembering_and_has_both_kinds_of_layers() -> None:
    model = new_model(VOCABULARY, 16, kind="xlstm", layers=3, heads=2)
    first, second, third = (cell.cell for cell in model.stack.cells)
    assert [type(cell) for cell in (first, second, third)] == [MLSTMCell, SLSTMCell, MLSTMCell]
    assert first.forget_gate.bias.tolist() == [3, 6]
    assert not first.input_gate.bias.any()
    assert second.b.view(4, 2, 8)[1, :, [0, -1]].tolist() == [[3, 6], [3, 6]]
    assert not second.b.view(4, 16)[[0, 2, 3]].any()
    assert model.stack.state_size == 2 * (8 * 8 + 8 + 1)


class ProjectedGRU(GRUCell):
    """A custom layer with an additional matrix. It has no method initialize()."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.V = nn.Parameter(torch.empty(6, 6))


def test_matrices_that_nobody_initializes_are_named() -> None:
    """A custom layer with an additional matrix but without initialize() is refused.

    The matrix would be 0 and would not learn.
    """
    own = plain_model({"kind": f"{__name__}:ProjectedGRU", "hidden_size": 6})
    with pytest.raises(ConfigError, match="it has V besides W, U and biases"):
        build_model(own, 20, seed=0)


class DerivedElman(ElmanCell):
    """A custom layer that is a subclass of ElmanCell."""


class DerivedLSTM(LSTMCell):
    """A custom layer that is a subclass of LSTMCell, which has gates."""


@pytest.mark.parametrize(("kind", "derived"), [("elman", DerivedElman), ("lstm", DerivedLSTM)])
def test_a_layer_derived_from_ours_begins_with_its_weights(kind: str, derived: type) -> None:
    own = plain_model({"kind": f"{__name__}:{derived.__name__}", "hidden_size": 6})
    ours = build_model(plain_model({"kind": kind, "hidden_size": 6}), 20, seed=0)
    for one, other in zip(build_model(own, 20, seed=0).parameters(), ours.parameters(), strict=True):
        assert torch.equal(one, other)
