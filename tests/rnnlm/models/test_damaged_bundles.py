"""Damaged and hostile model folders end in a ModelError of at most three lines."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnlm.errors import RnnlmError
from rnnlm.models.model_factory import load_model
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

HARMS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "list": lambda data: b"[]",
    "null": lambda data: b"null",
    "no fields": lambda data: b"{}",
    "binary": lambda data: b"\xff\xfe\x00" * 20,
    "deep": lambda data: b"[" * 100_000,
}


def load(folder: Path) -> None:
    load_model(folder)
    load_tokenizer(folder)


def refused(folder: Path) -> None:
    with pytest.raises(RnnlmError) as told:
        load(folder)
    assert len(str(told.value).splitlines()) <= 3


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "rnnlm_tokenizer.json"])
def test_a_damaged_file_is_reported(toy_run: RunRecord, tmp_path: Path, name: str, harm: str) -> None:
    shutil.copytree(toy_run.model_folder, tmp_path / "model")
    path = tmp_path / "model" / name
    path.write_bytes(HARMS[harm](path.read_bytes()))
    refused(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 10**22},
        {"hidden_size": 10**9},
        {"hidden_size": -1},
        {"hidden_size": "many"},
        {"vocab_size": 10**12},
        {"num_hidden_layers": 10**9},
        {"kind": "../../evil"},
        {"kind": ["elman"]},
        {"kind": None},
    ],
    ids=str,
)
def test_a_hostile_configuration_is_reported(toy_run: RunRecord, tmp_path: Path, change: dict[str, Any]) -> None:
    shutil.copytree(toy_run.model_folder, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(tmp_path / "model")
