"""A damaged or hostile model folder is refused before the model is built, by a ModelError of at most three lines."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from rnnlm.errors import ModelError, RnnlmError
from rnnlm.evaluation.shared_prefix_scoring import nll_of_rows_sharing_prefixes
from rnnlm.evaluation.token_losses import network_nll_of_split
from rnnlm.extensions.exports.hugging_face import RnnlmConfig, RnnlmForCausalLM
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_batch
from rnnlm.models.ensemble import joined
from rnnlm.models.model_factory import load_model, save_model
from rnnlm.models.saved_model import read_saved_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.sequences.segmentation import TokenRows
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from tests.configs import random_model
from tests.rnnlm.conftest import Storyteller

pytestmark = pytest.mark.long

HARMS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "list": lambda data: b"[]",
    "null": lambda data: b"null",
    "no fields": lambda data: b"{}",
    "binary": lambda data: b"\xff\xfe\x00" * 20,
    "deep": lambda data: b"[" * 100_000,
    "huge number": lambda data: b'{"vocab_size": ' + b"9" * 5_000 + b"}",
}
FILES = [
    "config.json",
    "model.safetensors",
    "counts.safetensors",
    "tokenizer.json",
    "rnnlm_tokenizer.json",
    "rnnlm.json",
]
SPACE_GROWS = {"type": "Replace", "pattern": {"String": " "}, "content": " " * 400}
CONFIGURATIONS: list[dict[str, Any]] = [
    {"hidden_size": 10**22},
    {"hidden_size": 10**9},
    {"hidden_size": -1},
    {"hidden_size": "many"},
    {"hidden_size": True},
    {"hidden_size": 32.0},
    {"hidden_size": 31},
    {"hidden_size": None},
    {"embedding_size": 33},
    {"vocab_size": 10**12},
    {"vocab_size": 3},
    {"num_hidden_layers": 10**9},
    {"num_hidden_layers": 0},
    {"kind": "../../evil"},
    {"kind": ["elman"]},
    {"kind": None},
    {"kind": "gru"},
    {"pad_token_id": 10**6},
    {"pad_token_id": -1},
    {"bos_token_id": 10**6},
    {"bos_token_id": None},
    {"eos_token_id": 2},
    {"eos_token_id": [3]},
    {"nonlinearity": "exec"},
    {"nonlinearity": "from_file"},
    {"nonlinearity": None},
    {"backend": "fast"},
    {"diagonal": True},
    {"diagonal": "no"},
    {"residual": 1},
    {"tie_word_embeddings": "yes"},
    {"one_hot": None},
    {"branch_scale": float("nan")},
    {"branch_scale": float("inf")},
    {"branch_scale": "1"},
    {"kind": "transformer", "heads": 4, "attention_window": 10**12},
    {"kind": "transformer", "heads": 5, "attention_window": 4},
    {"kind": "xlstm", "heads": 0},
    {"members": []},
    {"members": {}},
    {"members": [{}]},
    {"members": ["elman"]},
    {"members": [{"members": []}]},
    {"members": [{"kind": "this:s"}]},
]


@pytest.fixture
def folder(storyteller: Storyteller, tmp_path: Path) -> Path:
    """Return a copy of a model's folder for this test."""
    return Path(shutil.copytree(storyteller.folder, tmp_path / "model"))


def load(folder: Path) -> None:
    load_model(folder)
    load_tokenizer(folder)
    read_training_provenance(folder)


def refused(folder: Path, told: str = ".") -> None:
    with pytest.raises(RnnlmError, match=told) as error:
        load(folder)
    assert len(str(error.value).splitlines()) <= 3
    assert str(error.value).isascii()  # Characters of the file that are not ASCII are escaped in the message.


def change_json(path: Path, change: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def change_tensors(path: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_reported(folder: Path, name: str, harm: str) -> None:
    (folder / name).write_bytes(HARMS[harm]((folder / name).read_bytes()))
    refused(folder)


@pytest.mark.parametrize("change", CONFIGURATIONS, ids=str)
def test_a_hostile_configuration_is_reported(folder: Path, change: dict[str, Any]) -> None:
    """rnnlm and the code inside a registered model both refuse a hostile configuration."""
    change_json(folder / "config.json", change)
    refused(folder)
    with pytest.raises(ValueError, match=r"config\.json|model\.safetensors"):
        read_saved_model(folder)


@pytest.mark.parametrize("change", [change for change in CONFIGURATIONS if "members" not in change], ids=str)
def test_transformers_class_takes_no_other_values(folder: Path, change: dict[str, Any]) -> None:
    change_json(folder / "config.json", change)
    with pytest.raises(Exception, match=r".") as error:
        RnnlmForCausalLM.from_pretrained(folder)
    assert not isinstance(error.value, MemoryError)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": 5},
        {"kind": "words"},
        {"kind": "char"},
        {"splitting": "letters"},
        {"splitting": "punctuation"},
        {"unknown_literal": ["<unk>"]},
        {"unknown_literal": "x" * 2_000},
        {"vocabulary_size": 7},
        {"vocabulary_size": "many"},
    ],
    ids=lambda change: str(change)[:40],
)
def test_hostile_settings_of_the_tokenizer_are_reported(folder: Path, change: dict[str, Any]) -> None:
    change_json(folder / "rnnlm_tokenizer.json", change)
    refused(folder, "tokenizer is damaged")


@pytest.mark.parametrize(
    "change",
    [
        {
            "padding": {
                "strategy": {"Fixed": 1 << 36},
                "direction": "Left",
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "",
            }
        },
        {"truncation": {"max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
        {"normalizer": {"type": "Sequence", "normalizers": [SPACE_GROWS] * 4}},
        {"normalizer": SPACE_GROWS},
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": None},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a)*$"}, "behavior": "Removed", "invert": False}},
        {"pre_tokenizer": None},
        {"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1_000}},
        {
            "model": {
                "type": "WordLevel",
                "unk_token": "<unk>",
                "vocab": {"<pad>": 0, "<unk>": 1, "<bos>": 2, "<eos>": 3},
            }
        },
        {"model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"a": 0, "b": 1 << 31}}},
        {"model": {"type": "BPE", "vocab": {}, "merges": []}},
        {"model": None},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_tokenizer_does_nothing_that_its_settings_do_not_say(folder: Path, change: dict[str, Any]) -> None:
    change_json(folder / "tokenizer.json", change)
    refused(folder, "tokenizer is damaged")


def test_a_pretrained_tokenizer_cannot_make_texts_grow_without_bounds(folder: Path) -> None:
    change_json(folder / "rnnlm_tokenizer.json", {"kind": "pretrained:there"})
    load(folder)
    change_json(folder / "tokenizer.json", {"normalizer": {"type": "Sequence", "normalizers": [SPACE_GROWS] * 4}})
    refused(folder, "as long")


def test_a_regular_expression_that_panics_is_an_error_of_the_model(folder: Path) -> None:
    change_json(folder / "rnnlm_tokenizer.json", {"kind": "pretrained:there"})
    split = {"type": "Split", "pattern": {"Regex": "(a|a|a)*$"}, "behavior": "Removed", "invert": False}
    change_json(folder / "tokenizer.json", {"pre_tokenizer": split})
    with pytest.raises(RnnlmError, match="fails on this text"):
        load_tokenizer(folder).encode("a" * 20 + "b")


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "x"},
        {"mode": None},
        {"context_length": 0},
        {"context_length": 1.5},
        {"context_length": True},
        {"block_length": -1},
        {"block_length": 10**30},
        {"corpus_digest": 5},
        {"dataset_id": None},
    ],
    ids=str,
)
def test_a_hostile_provenance_is_reported(folder: Path, change: dict[str, Any]) -> None:
    change_json(folder / "rnnlm.json", change)
    refused(folder, r"rnnlm\.json")


def first_is(value: float) -> Callable[[dict[str, np.ndarray]], None]:
    def change(tensors: dict[str, np.ndarray]) -> None:
        tensors["language_model.head.bias"][0] = value

    return change


def a_weight_is_missing(tensors: dict[str, np.ndarray]) -> None:
    del tensors["language_model.head.bias"]


def a_weight_is_too_many(tensors: dict[str, np.ndarray]) -> None:
    tensors["language_model.other"] = np.zeros(3, np.float32)


def weights_are_whole_numbers(tensors: dict[str, np.ndarray]) -> None:
    tensors |= {name: tensor.astype(np.int32) for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    "change",
    [
        first_is(float("nan")),
        first_is(float("inf")),
        first_is(float("-inf")),
        first_is(1e30),  # A flipped bit in the exponent could change the first weight to such a value.
        first_is(-3e38),
        first_is(2e5),
        a_weight_is_missing,
        a_weight_is_too_many,
        weights_are_whole_numbers,
    ],
)
def test_weights_that_training_does_not_give_are_reported(
    folder: Path, change: Callable[[dict[str, np.ndarray]], None]
) -> None:
    change_tensors(folder / "model.safetensors", change)
    refused(folder, "not finite|weights are damaged|model.safetensors")


def test_states_that_grow_without_a_bound_are_reported() -> None:
    """A network whose states overflow after some tokens is reported, although its weights are finite."""
    model = random_model("elman", 50, nonlinearity="relu")
    for cell in model.stack.cells:
        cell.U.data.fill_(9e4)
    row = torch.arange(4, 40)
    source = TokenRows(np.arange(2, 40).astype(np.int32), np.array([0, 38]))
    for use in (
        lambda: nll_of_rows_sharing_prefixes(model, source, 4),
        lambda: list(network_nll_of_split(model, source, "sentence")),
        lambda: continue_batch(InferenceWeights(model), [row.tolist()], [Sampling(maximum_tokens=3)], 3),
        lambda: continue_batch(InferenceWeights(model), [row.tolist()], [Sampling(maximum_tokens=3, temperature=0)], 3),
    ):
        with pytest.raises(ModelError, match="not finite"):
            use()


@pytest.mark.parametrize("shares", [None, [1.0], [0.5, float("nan")], [2.0, -1.0], [0.2, 0.2]], ids=str)
def test_an_ensemble_needs_a_share_for_each_member(
    storyteller: Storyteller, folder: Path, shares: list[float] | None
) -> None:
    save_model(joined([storyteller.network(), storyteller.network()], np.array([0.5, 0.5])), folder)
    load(folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["shares"]
    save_file(
        tensors | ({} if shares is None else {"shares": np.array(shares, np.float32)}), folder / "model.safetensors"
    )
    refused(folder, "shares|not finite")


COUNTS: dict[str, Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "words reversed": lambda counts: {"1.words": counts["1.words"][::-1].copy()},
    "contexts reversed": lambda counts: {"1.tokens": counts["1.tokens"][::-1].copy()},
    "negative": lambda counts: {"1.counts": -counts["1.counts"].astype(np.int32)},
    "zero": lambda counts: {"1.counts": counts["1.counts"] * 0},
    "floats": lambda counts: {"1.counts": counts["1.counts"].astype(np.float32)},
    "a word twice": lambda counts: {"0.words": np.full_like(counts["0.words"], 5)},
    "a word beyond": lambda counts: {"0.words": counts["0.words"] + np.uint16(60_000)},
    "discounts negated": lambda counts: {"discounts": -counts["discounts"]},
    "discounts above counts": lambda counts: {"discounts": counts["discounts"] * 100},
    "discounts of nothing": lambda counts: {"discounts": counts["discounts"] * 0},
    "discounts not finite": lambda counts: {"discounts": counts["discounts"] * np.nan},
    "no orders": lambda counts: {"discounts": counts["discounts"][:0]},
    "shares not finite": lambda counts: {"shares": counts["shares"] * np.nan},
    "nothing predictable": lambda counts: {"predictable": counts["predictable"][:0]},
    "predictable reversed": lambda counts: {"predictable": counts["predictable"][::-1].copy()},
    "predictable beyond": lambda counts: {"predictable": counts["predictable"] + np.uint16(60_000)},
    "two empty contexts": lambda counts: {"0.tokens": np.zeros(2, np.uint16)},
    "a table": lambda counts: {"1.counts": counts["1.counts"][:, None]},
}


@pytest.mark.parametrize("harm", COUNTS)
def test_counts_that_training_does_not_give_are_reported(folder: Path, harm: str) -> None:
    change_tensors(folder / "counts.safetensors", lambda counts: counts.update(COUNTS[harm](counts)))
    refused(folder, "counts")


@pytest.mark.parametrize("where", ["network", "member"])
@pytest.mark.parametrize("module", ["harmful_layer", "harmful_layer.deeper"])
def test_a_folder_does_not_choose_a_module_to_import(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Home, where: str, module: str
) -> None:
    """No reader imports the module that a folder's configuration names as the kind.

    The readers are rnnlm, the class for transformers, and the code inside a registered model.
    """
    (tmp_path / "harmful_layer").mkdir()
    for name in ("__init__", "deeper"):
        (tmp_path / "harmful_layer" / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = {"kind": f"{module}:Layer"}
    config = json.loads((folder / "config.json").read_text())
    change_json(folder / "config.json", kind if where == "network" else {"members": [config, config | kind]})
    refused(folder, "RNNLM_OWN_LAYERS")
    with pytest.raises(ImportError, match="has not been imported here"):
        read_saved_model(folder)
    if where == "network":
        with pytest.raises(ImportError, match="has not been imported here"):
            RnnlmForCausalLM(RnnlmConfig(**config | kind))
    assert module not in sys.modules


def test_a_module_that_is_imported_already_gives_only_layers(folder: Path, home: Home) -> None:
    change_json(folder / "config.json", {"kind": "subprocess:Popen"})
    refused(folder, "not a Cell")
    change_json(folder / "config.json", {"kind": "transformers:BertModel"})
    refused(folder, "no BertModel|not a Cell|RNNLM_OWN_LAYERS")


def test_sound_folders_are_read(toy_run: RunRecord, folder: Path) -> None:
    load(toy_run.model_folder)
    load(folder)
    assert torch.isfinite(read_saved_model(folder).head.bias).all()
