"""The files of evidence that belong to a registered model are used only if they have their registered digests."""

from pathlib import Path

import pytest

from rnnlm.registry.bundle import CHARACTERS, CONFIGURATION, HELD_OUT_LINES, TRAINING_DOCUMENTS, evidence_file
from rnnlm.registry.model_lookup import corpus_settings, model_folder
from rnnlm.registry.registry_version import read_version
from rnnlm.registry.seen_documents import held_out_lines, training_digests
from rnnlm.storage.stages import COMPLETE
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.registrar import Registrar

FILES = (CHARACTERS, CONFIGURATION, HELD_OUT_LINES, TRAINING_DOCUMENTS)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_not_used_and_the_model_is(
    registered: Registrar, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    bundle = model_folder(registered.home, "rnnlm-toy")
    path = evidence_file(bundle, name)
    assert path is not None
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert model_folder(registered.home, "rnnlm-toy") == bundle
    assert evidence_file(bundle, name) is None
    assert f"{name}: the file is damaged, so it is not used" in caplog.text
    with reaching_mlflow(registered.home) as client:
        version = read_version(client, "rnnlm-toy", 1)
    assert (held_out_lines(bundle) is None) == (name == HELD_OUT_LINES)
    assert (training_digests(version, bundle) is None) == (name == TRAINING_DOCUMENTS)
    assert (corpus_settings(bundle) == {}) == (name == CONFIGURATION)


@pytest.mark.long
def test_a_missing_file_or_marker(registered: Registrar, tmp_path: Path) -> None:
    bundle = model_folder(registered.home, "rnnlm-toy")
    # There are no losses, because the first version was compared with no other.
    assert evidence_file(bundle, "losses.parquet") is None
    assert evidence_file(tmp_path, CHARACTERS) is None
    assert evidence_file(Path("/"), CHARACTERS) is None
    marker = bundle.parents[1] / COMPLETE
    marker.write_text("{")
    assert evidence_file(bundle, CHARACTERS) is None
    marker.unlink()  # Simulate an early release of rnnlm, which wrote no marker.
    assert evidence_file(bundle, CHARACTERS) is not None
