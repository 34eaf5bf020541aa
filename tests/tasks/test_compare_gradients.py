import json

import pytest

from rnnlm.config import TrainingConfig
from rnnlm.home import Home
from rnnlm.probes.gradients import measure_gradients as measured
from rnnlm.records import DatasetRecord
from rnnlm.reports.probe_page import gradient_comparison_report
from tasks.compare_gradients import compare_gradients
from tests.tasks.comparisons import GRADIENTS, PNG


@pytest.mark.slow
def test_gradients_are_compared_once_and_kept_beside_their_picture(home: Home, toy_dataset: DatasetRecord) -> None:
    found = compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    assert not found.skipped
    assert list(found.curves) == measured(toy_dataset, GRADIENTS, window_length=35)
    assert found.picture.parent == found.figures.parent == home.probes
    assert found.picture.read_bytes().startswith(PNG)
    kept = json.loads(found.figures.read_text())["value"]
    assert kept["settings"]["dataset_id"] == toy_dataset.dataset_id
    assert kept["curves"][7]["start"] == "identity × 1.2"

    found.picture.unlink()
    again = compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    assert (again.skipped, again.curves) == (True, found.curves)
    assert again.picture.exists()
    assert not compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS, force=True).skipped
    other = compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS.model_copy(update={"seed": 1}))
    assert (other.skipped, other.figures != found.figures) == (False, True)


@pytest.mark.long
def test_the_report_shows_the_picture_and_what_is_left(home: Home, toy_dataset: DatasetRecord) -> None:
    found = compare_gradients.fn(toy_dataset, TrainingConfig(), GRADIENTS)
    report = gradient_comparison_report(found)
    assert "data:image/png;base64,iVBOR" in report
    assert "| network | steps | norm | 1 back | 5 back |" in report
    norms = found.curves[0].norms[0]
    assert f"| tanh, xavier | 0 | {norms[0]:.2e} | {norms[1] / norms[0]:.2e} | {norms[5] / norms[0]:.2e} |" in report
    assert found.series["relative_norm/relu_identity-x1.2"][0] == (0, pytest.approx(1.0))
