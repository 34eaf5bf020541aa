"""The ONNX file computes the same logits as torch for each step, from the state of the previous step."""

import json
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from rnnlm.config import ModelKind
from rnnlm.errors import ConfigError, ExtraError, ModelError
from rnnlm.extensions.exports import onnx_graph
from rnnlm.extensions.exports.onnx_graph import OneStep, check_size, export_onnx, prepare_folder
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model, load_model, save_model
from rnnlm.runtime.extras import EXTRAS
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.records import DatasetRecord, RunRecord, Split
from rnnlm.tokenizers.text_tokenizer import PAD
from tests.configs import plain_model


def saved(folder: Path, dataset: DatasetRecord, settings: dict[str, object]) -> LanguageModel:
    """Save a model with random weights and its tokenizer, and return the model.

    The initial weights are not used, because their biases are zero and their gates half open. The weights are changed
    so little that the states of relu networks do not explode.
    """
    model = build_model(plain_model({"hidden_size": 12} | settings), dataset.vocabulary_size, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.stack.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        model.head.weight.mul_(3)
        model.embedding.weight[PAD] = 0
    save_model(model, folder)
    shutil.copy(dataset.tokenizer_folder / "tokenizer.json", folder)
    return model


def text_ids(dataset: DatasetRecord, split: Split, tokens: int) -> torch.Tensor:
    """Return the first tokens of a split, (tokens,) int64, sentence after sentence, each with its <bos>."""
    source = StoredSplit(dataset, split)
    return torch.from_numpy(source.read(0, len(source)).token_ids[:tokens].astype(np.int64))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"nonlinearity": "tanh"}, id="tanh", marks=pytest.mark.slow),
        pytest.param({"nonlinearity": "sigmoid"}, id="sigmoid", marks=pytest.mark.slow),
        pytest.param({"nonlinearity": "relu", "tie_embeddings": True}, id="relu-tied", marks=pytest.mark.slow),
        pytest.param(
            {"nonlinearity": "tanh", "tie_embeddings": True, "layers": 2, "embedding_size": 8}, id="tanh-tied-2"
        ),
        pytest.param({"nonlinearity": "relu", "layers": 2, "embedding_size": 8}, id="relu-2", marks=pytest.mark.slow),
        pytest.param(
            {"recurrence": "diagonal", "recurrent_initialization": "spread", "layers": 3, "residual": True},
            id="diagonal-residual-3",
            marks=pytest.mark.slow,
        ),
        *(
            # The quick tests include only some kinds, because each export takes seconds. An xLSTM has two kinds of
            # layers.
            pytest.param(
                {"kind": kind, "layers": 1 + (kind == "xlstm"), "heads": 2, "attention_window": 7},
                id=kind,
                marks=() if kind in ("lstm", "min-gru", "transformer", "xlstm") else pytest.mark.slow,
            )
            for kind in get_args(ModelKind)[1:]
        ),
    ],
)
@pytest.mark.long
def test_logits_equal_those_of_torch_over_a_text(
    toy_dataset: DatasetRecord, tmp_path: Path, settings: dict[str, object]
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="extra onnx")
    pytest.importorskip("onnxscript", reason="extra onnx")
    model = saved(tmp_path / "model", toy_dataset, settings)
    record = export_onnx(tmp_path / "model", tmp_path / "onnx" / "model.onnx")
    assert sorted(path.name for path in (tmp_path / "onnx").iterdir()) == [
        "model.onnx",
        "special_tokens.json",
        "tokenizer.json",
    ]
    assert record.largest_difference < 1e-4

    session = onnxruntime.InferenceSession(record.file)
    layers, state_size = len(model.stack.cells), model.stack.state_size
    assert [(value.name, value.type, value.shape[1:]) for value in session.get_inputs()] == [
        ("token_ids", "tensor(int64)", [1]),
        ("state", "tensor(float)", [layers, state_size]),
    ]
    assert [value.name for value in session.get_outputs()] == ["logits", "new_state"]

    ids = text_ids(toy_dataset, "test", 400)
    # The test uses three rows, because the exporter's example has two.
    lanes = torch.stack([ids, ids.flip(0), ids.roll(7)])
    state = np.zeros((3, layers, state_size), np.float32)
    found = []
    for token_ids in lanes.split(1, dim=1):
        logits, state = session.run(None, {"token_ids": token_ids.numpy(), "state": state})
        assert logits.shape == (3, toy_dataset.vocabulary_size)
        found.append(logits)
    with torch.inference_mode():
        expected, last = model(lanes)
    # The tolerance of 1e-4 is larger than float32's rounding error for logits below 100.
    assert expected[~expected.isneginf()].abs().max() < 100
    np.testing.assert_allclose(np.stack(found, axis=1), expected.numpy(), atol=1e-4, rtol=0)
    # The relative tolerance is for the memory of an xLSTM, whose values grow to 50.
    np.testing.assert_allclose(state, last.numpy(), atol=1e-4, rtol=1e-5)


def test_one_step_is_a_step_of_the_model(toy_run: RunRecord) -> None:
    model = load_model(toy_run.model_folder)
    ids = torch.tensor([[2], [5]])
    state = torch.full((2, 1, 16), 0.3)
    logits, new_state = OneStep(model)(ids, state)
    expected, last = model(ids, state)
    torch.testing.assert_close(logits, expected[:, 0])
    torch.testing.assert_close(new_state, last)
    assert model.stack.backend == "fused"  # The export changes the backend only in a copy of the model.


@pytest.mark.slow
def test_tokenizer_and_special_tokens_are_written_beside_the_file(toy_run: RunRecord, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="extra onnx")
    pytest.importorskip("onnxscript", reason="extra onnx")
    record = export_onnx(toy_run.model_folder, tmp_path / "a.onnx")
    ids = json.loads(record.special_tokens.read_text(encoding="utf-8"))
    assert ids == {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    assert record.tokenizer.read_bytes() == (toy_run.model_folder / "tokenizer.json").read_bytes()
    # A second export of the same model replaces the file.
    assert export_onnx(toy_run.model_folder, tmp_path / "a.onnx").file_bytes == record.file_bytes


def test_a_tokenizer_of_another_model_is_not_written_over(toy_run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tokenizer\.json belongs to another model"):
        prepare_folder(tmp_path / "model.onnx", toy_run.model_folder / "tokenizer.json")
    with pytest.raises(ConfigError, match="is a folder"):
        prepare_folder(tmp_path, toy_run.model_folder / "tokenizer.json")


def test_a_place_that_cannot_be_made_is_reported(toy_run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="--output .*cannot be created"):
        prepare_folder(tmp_path / "taken" / "model.onnx", toy_run.model_folder / "tokenizer.json")


def test_a_model_too_large_for_one_file_is_reported(toy_run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "LARGEST_BYTES", 1_000)
    with pytest.raises(ModelError, match="expected at most 1,000"):
        check_size(load_model(toy_run.model_folder), toy_run.model_folder)


def test_a_missing_extra_is_reported_with_its_command(
    toy_run: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "onnx", ("torch", "a_package_that_nobody_has"))
    with pytest.raises(ExtraError, match=r'a_package_that_nobody_has, which(.|\n)*pip install .*"\.\[onnx\]"'):
        export_onnx(toy_run.model_folder, tmp_path / "model.onnx")
