"""The exported model can be saved and loaded by transformers. It generates text with a carried state."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from rnnlm.config import ModelKind, OptimizerConfig
from rnnlm.errors import ConfigError, ModelError
from rnnlm.extensions.exports.hugging_face import RnnlmForCausalLM
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.model_factory import build_model, load_model
from rnnlm.training.optimizers import make_optimizer
from tests.configs import KINDS, plain_model


def model(**settings: object) -> RnnlmForCausalLM:
    config = plain_model({"hidden_size": 12, "head_bias": "zero"} | settings)
    built = RnnlmForCausalLM.from_language_model(build_model(config, 30, seed=3)).eval()
    with torch.no_grad():  # Larger weights make the greedy choices differ from step to step.
        for parameter in built.parameters():
            parameter.mul_(3)
    return built


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [False, True])
def test_a_saved_model_loads_unchanged(tmp_path: Path, tied: bool, kind: ModelKind) -> None:
    before = model(tie_embeddings=tied, layers=2, heads=2, attention_window=2, kind=kind)
    before.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    assert not list(tmp_path.glob("*.bin"))
    ids = torch.tensor([[2, 5, 6]])
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(theirs(ids).logits, before(ids).logits)
    for network in (load_model(tmp_path), theirs.language_model):
        assert torch.equal(network(ids)[0], before(ids).logits)
        assert (network.head.weight is network.embedding.weight) == tied


def test_generate_reads_the_prefix_once() -> None:
    net = model()
    lengths: list[int] = []
    net.language_model.stack.register_forward_pre_hook(lambda module, inputs: lengths.append(inputs[0].shape[1]))
    net.generate(torch.tensor([[2, 5, 6, 7]]), max_new_tokens=4, do_sample=False, eos_token_id=None)
    assert lengths == [4, 1, 1, 1]


def test_labels_are_shifted_and_shift_labels_are_not() -> None:
    net = model()
    ids = torch.tensor([[2, 5, 6, 3]])
    shifted = net(ids[:, :-1], shift_labels=ids[:, 1:]).loss
    torch.testing.assert_close(net(ids, labels=ids).loss, shifted)
    padded = net(torch.tensor([[2, 5, 6, 0]]), shift_labels=torch.tensor([[5, 6, 3, 0]])).loss
    torch.testing.assert_close(padded, shifted)


def test_shares_of_batches_add_up_to_one_loss() -> None:
    """Batch losses that are divided by the number of targets in all batches add up to the loss of one large batch.

    Trainer adds up losses in this way if it accumulates gradients.
    """
    net = model()
    ids = torch.tensor([[2, 5, 6, 3], [2, 9, 3, 0]])
    labels = ids.masked_fill(ids == 0, -100)
    parts = [net(ids[row : row + 1], labels=labels[row : row + 1], num_items_in_batch=5).loss for row in range(2)]
    torch.testing.assert_close(sum(parts), net(ids, labels=labels).loss)


def test_the_last_logits_alone_are_the_last_logits() -> None:
    net = model(layers=2)
    ids = torch.tensor([[2, 5, 6, 3]])
    torch.testing.assert_close(net(ids, logits_to_keep=2).logits, net(ids).logits[:, -2:])


@pytest.mark.parametrize("tied", [False, True])
def test_a_vocabulary_may_grow_and_shrink(tied: bool) -> None:
    net = model(tie_embeddings=tied)
    # Simulate the bias of a trained model, which consists of log frequencies far below 0.
    net.language_model.head.bias.data -= 5.0
    ids = torch.tensor([[2, 5, 6]])
    before = net(ids).logits
    net.resize_token_embeddings(33)
    after = net(torch.tensor([[2, 5, 6]])).logits
    assert (after.shape[-1], net.config.vocab_size) == (33, 33)
    torch.testing.assert_close(after[..., :30], before)
    assert after[0, :, [0, 2]].isinf().all()
    assert after.softmax(dim=-1)[..., 30:].sum(dim=-1).max() < 0.5  # The new tokens do not dominate the predictions.
    assert net(torch.tensor([[2, 32]])).logits.shape == (1, 2, 33)
    network = net.language_model
    assert (network.head.weight is network.embedding.weight) == tied
    net.resize_token_embeddings(30)
    torch.testing.assert_close(net(ids).logits, before)


@pytest.mark.parametrize("auto", [RnnlmForCausalLM, AutoModelForCausalLM])
def test_a_pickle_is_not_loaded(tmp_path: Path, auto: Any) -> None:
    net = model()
    net.save_pretrained(tmp_path)
    torch.save(net.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        auto.from_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        auto.from_pretrained(tmp_path, use_safetensors=False)
    with pytest.raises(ModelError, match="expected a model .*, found none"):
        load_model(tmp_path)


def test_damaged_and_missing_weights_are_reported(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["language_model.stack.cells.0.U"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"cells\.0\.U"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(tmp_path)


def test_one_hot_input_stays_the_identity() -> None:
    built = model(input="one-hot").language_model
    one_hot = torch.eye(30)
    one_hot[0] = 0.0
    # The one-hot rows are restored, because model() has multiplied them by 3.
    built.embedding.weight.data.copy_(one_hot)
    optimizer = make_optimizer(built, OptimizerConfig(weight_decay=0.1))
    hidden, _ = built.hidden(torch.tensor([[2, 5, 7]]))
    exact_cross_entropy(built, hidden, torch.tensor([[5, 7, 3]])).backward()
    before = built.stack.cells[0].W.clone()
    optimizer.step()
    assert torch.equal(built.embedding.weight, one_hot)
    assert not torch.equal(built.stack.cells[0].W, before)
    assert built.stack.cells[0].W.shape == (30, 12)  # Row i of W is added to the hidden state for token i.


def test_one_hot_input_of_a_large_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="one-hot: the vocabulary has 5,000 ids"):
        build_model(plain_model({"input": "one-hot"}), 5_000, seed=0)
