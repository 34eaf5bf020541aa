"""What a model's folder says of its training text is all there, or an error says so."""

import shutil
from pathlib import Path

import pytest

from rnnlm.errors import ModelError
from rnnlm.home import read_json, write_json
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.storage.records import DatasetRecord, RunRecord


def test_a_trained_model_names_its_dataset_and_how_its_text_was_cut(
    toy_run: RunRecord, toy_dataset: DatasetRecord
) -> None:
    origin = read_training_provenance(toy_run.model_folder)
    assert (origin.dataset_id, origin.corpus_digest) == (toy_dataset.dataset_id, toy_dataset.corpus_digest)
    assert origin.cut.mode == toy_dataset.mode


@pytest.mark.parametrize("missing", ["file", "mode", "corpus_digest"])
def test_a_missing_fact_is_reported(toy_run: RunRecord, tmp_path: Path, missing: str) -> None:
    if missing != "file":
        shutil.copy(toy_run.model_folder / "rnnlm.json", tmp_path)
        facts = read_json(tmp_path / "rnnlm.json")
        assert isinstance(facts, dict)
        write_json(tmp_path / "rnnlm.json", {name: value for name, value in facts.items() if name != missing})
    with pytest.raises(ModelError, match=r"rnnlm\.json is missing or damaged"):
        read_training_provenance(tmp_path)
