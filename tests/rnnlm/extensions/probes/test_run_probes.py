"""The probes of a run are computed once and stored in the run's folder."""

import json
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.gradient_norms import gradient_norms
from rnnlm.extensions.probes.run_probes import GRADIENT_PROBE, POSITION_PROBE, measure_gradient_flow, measure_positions
from rnnlm.extensions.probes.run_probes_config import ProbesConfig
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.dataset_reader import longest_row
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.sequences.windows import stored_windows
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from tests.configs import changed


def test_gradient_flow_is_measured_on_validation_text(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    record = measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig(gradient_rows=4))
    norms = gradient_norms(load_model(toy_run.model_folder), *stored_windows(toy_dataset, "valid", 61, 4))
    assert record.norms[0] == pytest.approx(norms[0].tolist())
    assert record.rows == 4
    assert json.loads((toy_run.folder / "gradient_flow.json").read_text())["value"]["rows"] == 4
    assert record.picture == toy_run.folder / "gradient_flow.png"
    assert record.picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_measurements_are_kept_until_their_inputs_change(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    first = measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig(gradient_rows=4))
    drawn = first.picture.read_bytes()
    first.picture.unlink()
    again = measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig(gradient_rows=4))
    assert (first.skipped, again.skipped, again.norms) == (False, True, first.norms)
    assert again.picture.read_bytes() == drawn  # The deleted plot is drawn again from the stored values.
    other = measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig(gradient_rows=2))
    assert (other.skipped, other.rows) == (False, 2)
    assert other.picture.read_bytes() != drawn
    assert not measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig(gradient_rows=2), force=True).skipped


def test_positions_are_those_of_the_test_split(home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    record = measure_positions(home, toy_dataset, toy_run, ProbesConfig(given_tokens=3))
    assert record.rows == (40,) * 9  # Each line has nine words, and <eos> is not counted.
    assert record.right[0] == record.right[3] == 1.0  # The first and the fourth word are always "the".
    assert record.exact[:3] == (None, None, None)
    assert record.exact[3] == 1.0
    assert record.exact[4] is not None
    assert record.exact[4] < 0.5  # The fifth word is one of four animals.
    assert record.longest_trained == 9  # The longest row has nine words. <eos> is not counted.
    assert record.picture.read_bytes().startswith(b"\x89PNG")
    assert measure_positions(home, toy_dataset, toy_run, ProbesConfig(given_tokens=3)).skipped


@pytest.mark.slow
def test_the_longest_row_is_counted_without_its_eos(home: Home, toy_folder: Path) -> None:
    # In sentence mode, each row has nine words and <eos>.
    config = build_config(overrides=["tokenizer.kind=word"], corpus=str(toy_folder))
    for context_length, longest in ((10, 9), (9, 9), (5, 5), (64, 9)):
        cut = config.model_copy(update={"sequences": SequencesConfig(context_length=context_length)})
        assert longest_row(prepare_dataset(home, cut), "train") == longest


@pytest.mark.long
def test_a_runs_gradients_are_measured_once_and_reported(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    record = measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig())
    assert not record.skipped
    assert measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig()).skipped
    assert not measure_gradient_flow(home, toy_dataset, toy_run, ProbesConfig(), force=True).skipped
    assert GRADIENT_PROBE.is_wanted(toy_config, toy_run)
    measured = GRADIENT_PROBE.measure(home, toy_config, toy_dataset, toy_run, False)
    report = measured.page
    assert measured.pictures == (toy_run.folder / "gradient_flow.png",)
    assert "data:image/png;base64,iVBOR" in report
    # The distances are at most nine steps, because the sentences have ten tokens.
    assert "| layer | 1 back | 5 back |" in report
    assert f"| 1 | {record.norms[0][1] / record.norms[0][0]:.2g} |" in report


def test_a_runs_right_guesses_are_measured_once_and_reported(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    config = ProbesConfig(given_tokens=3)
    record = measure_positions(home, toy_dataset, toy_run, config)
    assert not record.skipped
    assert measure_positions(home, toy_dataset, toy_run, config).skipped
    assert not POSITION_PROBE.is_wanted(toy_config, toy_run)
    asked = changed(toy_config, {"probes.positions": True, "probes.given_tokens": 3})
    assert POSITION_PROBE.is_wanted(asked, toy_run)
    report = POSITION_PROBE.measure(home, asked, toy_dataset, toy_run, False).page
    assert "data:image/png;base64,iVBOR" in report
    assert "| 1 | 40 | 100.0% | given |" in report  # The first word of every line is "the", so its accuracy is 100 %.
    assert "| 4 | 40 | 100.0% | 100.0% |" in report  # The fourth word of every line is "the", so its accuracy is 100 %.
