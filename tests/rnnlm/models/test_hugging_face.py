"""A citizen of transformers: saved, found, generating with carried state."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rnnlm.config import ModelConfig, TrainingConfig
from rnnlm.errors import ConfigError, ModelError
from rnnlm.generation.sampling import Sampling, continue_ids
from rnnlm.models.building import build_model, load_model
from rnnlm.models.hugging_face import ElmanForCausalLM
from rnnlm.training.losses.definition import exact_cross_entropy
from rnnlm.training.optimization import make_optimizer


def model(**settings: object) -> ElmanForCausalLM:
    config = ModelConfig.model_validate({"hidden_size": 12, "head_bias": "zero"} | settings)
    built = build_model(config, 30, seed=3).eval()
    with torch.no_grad():  # away from zero, so that greedy choices differ from step to step
        for parameter in built.parameters():
            parameter.mul_(3)
    return built


@pytest.mark.parametrize("tied", [False, True])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, tied: bool) -> None:
    before = model(tie_embeddings=tied, layers=2)
    before.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    assert not list(tmp_path.glob("*.bin"))
    ids = torch.tensor([[2, 5, 6]])
    for loaded in (load_model(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)):
        assert torch.equal(loaded(ids).logits, before(ids).logits)
        network = loaded.language_model
        assert (network.head.weight is network.embedding.weight) == tied


def test_generate_is_our_own_greedy_loop() -> None:
    net = model(layers=2)
    ours = continue_ids(net.language_model, [2, 5, 6], Sampling(maximum_tokens=12, temperature=0), eos_id=3)
    theirs = net.generate(torch.tensor([[2, 5, 6]]), max_new_tokens=12, do_sample=False)
    assert theirs[0, 3:].tolist() == ours
    assert len(set(ours)) > 2


def test_generate_reads_the_prefix_once() -> None:
    net = model()
    lengths: list[int] = []
    net.language_model.register_forward_pre_hook(lambda module, inputs: lengths.append(inputs[0].shape[1]))
    net.generate(torch.tensor([[2, 5, 6, 7]]), max_new_tokens=4, do_sample=False, eos_token_id=None)
    assert lengths == [4, 1, 1, 1]


def test_a_left_padded_prompt_goes_on_as_it_would_alone() -> None:
    net = model()
    alone = net.generate(torch.tensor([[2, 5]]), max_new_tokens=6, do_sample=False, eos_token_id=None)
    batch = net.generate(
        torch.tensor([[0, 0, 2, 5], [2, 9, 8, 7]]),
        attention_mask=torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]]),
        max_new_tokens=6,
        do_sample=False,
        eos_token_id=None,
    )
    assert batch[0, 4:].tolist() == alone[0, 2:].tolist()


def test_without_a_cache_the_whole_prefix_gives_the_same() -> None:
    net = model()
    ids = torch.tensor([[2, 5, 6]])
    assert net(ids, use_cache=False).state is None
    settings = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    assert torch.equal(net.generate(ids, use_cache=False, **settings), net.generate(ids, **settings))


def test_beams_keep_their_own_state() -> None:
    """The best of 4 beams is at least as likely as the greedy text, scored by one forward pass."""
    net = model()
    ids = torch.tensor([[2, 5]])

    def likelihood(text: torch.Tensor) -> float:
        logits = net(text[:, :-1]).logits.log_softmax(-1)
        return float(logits.detach().gather(-1, text[:, 1:, None])[:, 1:].sum())

    settings = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
    beams = net.generate(
        ids, num_beams=4, return_dict_in_generate=True, output_scores=True, length_penalty=0.0, **settings
    )
    assert float(beams.sequences_scores[0]) == pytest.approx(likelihood(beams.sequences), abs=1e-4)
    assert likelihood(beams.sequences) >= likelihood(net.generate(ids, **settings)) - 1e-5


def test_labels_are_shifted_and_shift_labels_are_not() -> None:
    net = model()
    ids = torch.tensor([[2, 5, 6, 3]])
    shifted = net(ids[:, :-1], shift_labels=ids[:, 1:]).loss
    torch.testing.assert_close(net(ids, labels=ids).loss, shifted)
    padded = net(torch.tensor([[2, 5, 6, 0]]), shift_labels=torch.tensor([[5, 6, 3, 0]])).loss
    torch.testing.assert_close(padded, shifted)


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model here"):
        load_model(tmp_path)


def test_damaged_and_missing_weights_are_told(tmp_path: Path) -> None:
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


def test_one_hot_input_is_the_identity_and_stays_it() -> None:
    built = model(input="one-hot").language_model
    one_hot = torch.eye(30)
    one_hot[0] = 0.0
    built.embedding.weight.data.copy_(one_hot)  # model() has scaled all weights
    optimizer = make_optimizer(built, TrainingConfig(weight_decay=0.1))
    hidden, _ = built.hidden(torch.tensor([[2, 5, 7]]))
    exact_cross_entropy(built, hidden, torch.tensor([[5, 7, 3]])).backward()
    before = built.stack.cells[0].W.clone()
    optimizer.step()
    assert torch.equal(built.embedding.weight, one_hot)
    assert not torch.equal(built.stack.cells[0].W, before)
    assert built.stack.cells[0].W.shape == (30, 12)  # row i is what token i adds to the hidden state


def test_one_hot_input_of_a_large_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="one-hot: the vocabulary has 5,000 ids"):
        build_model(ModelConfig(input="one-hot"), 5_000, seed=0)
