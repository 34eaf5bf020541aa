"""Each data gate passes, warns or stops the run. The expected fractions were counted by hand."""

import json
import logging
import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import DatasetError
from rnnlm.registry.bundle import CHARACTERS
from rnnlm.registry.data_gates import GateResult, GatesError, GatesRecord, check_gates
from rnnlm.reports.dataset_page import gates_report
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.configs import changed, plain_config
from tests.conftest import home_in
from tests.registrar import Registrar
from tests.rnnlm.registry.test_champion_comparison import evidence_folder

# In the held-out splits, 2 of 7 predicted tokens are unknown, and 3 of 10 bytes are in lines of the training text.
TEXTS = {
    "train": "a b\n\na c\na c\nd\n",  # One of the 4 rows repeats another row.
    "valid": "a c\nzz a zz\n",
    "test": "b b\n",
}
SHARES = {"unknown": 2 / 7, "duplicates": 1 / 4, "leakage": 3 / 10}
TOY = "rnnlm-toy"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, PipelineConfig, DatasetRecord]]:
    folder = tmp_path_factory.mktemp("gates")
    with home_in(folder) as home:
        (folder / "small").mkdir()
        for split, text in TEXTS.items():
            (folder / "small" / f"{split}.txt").write_text(text)
        config = plain_config({"corpus.source": str(folder / "small")})
        yield home, config, prepare_dataset(home, config)


def result_of(record: GatesRecord, gate: str) -> GateResult:
    [result] = [result for result in record.results if result.gate == gate]
    return result


@pytest.mark.long
@pytest.mark.parametrize("gate", SHARES)
def test_a_share_passes_at_its_threshold_and_warns_or_stops_above_it(
    small: tuple[Home, PipelineConfig, DatasetRecord], gate: str, caplog: pytest.LogCaptureFixture
) -> None:
    home, config, dataset = small
    share = SHARES[gate]
    at = {f"gates.{gate}_warn_at": share, f"gates.{gate}_stop_at": share}
    passed = check_gates(home, changed(config, at), dataset)
    assert result_of(passed, gate).share == pytest.approx(share)
    assert result_of(passed, gate).outcome == "passed"
    passed.raise_if_stopped()
    assert not any(result_of(passed, gate).text in message for message in caplog.messages)

    warned = check_gates(home, changed(config, at | {f"gates.{gate}_warn_at": share - 0.01}), dataset)
    assert result_of(warned, gate).outcome == "warned"
    assert any(f"{share:.1%}" in message for message in caplog.messages)
    warned.raise_if_stopped()
    assert any("| warned |" in line and f"{share:.1%}" in line for line in gates_report(warned).splitlines())

    stopped = check_gates(home, changed(config, at | {f"gates.{gate}_stop_at": share - 0.01}), dataset)
    assert result_of(stopped, gate).outcome == "stopped"
    expected = rf"small: not trained, the champion stays: .*{share:.1%}.*at most {share - 0.01:.1%}"
    with pytest.raises(DatasetError, match=expected + rf".*\n.*gates\.{gate}_stop_at"):
        stopped.raise_if_stopped()
    assert "stopped, the champion stays" in gates_report(stopped)


LICENCE = [f"{clause} shall not be used without {clause} permission ." for clause in ("names", "marks", "works")]


def licences(years: range, *more: str) -> str:
    """Return copies of a text that differ only in their first lines."""
    return "".join("\n".join([f"copyright {year} author", *LICENCE, *more, "", ""]) for year in years)


@pytest.mark.parametrize("mode", [pytest.param("sentence", marks=pytest.mark.long), "stream"])
def test_near_copies_in_held_out_text_are_told_before_training(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """Held-out text is reported before training if it differs from the training text only in single lines.

    No two documents of the three splits are equal, so comparing documents would not be enough.
    """
    folder = tmp_path / "licences"
    folder.mkdir()
    (folder / "train.txt").write_text("some other text\n\n" + licences(range(1900, 1930)))
    (folder / "valid.txt").write_text("nothing of this\n\nis in training\n")
    (folder / "test.txt").write_text(licences(range(2000, 2009), "the end of it"))
    config = plain_config({"corpus.source": str(folder), "sequences.mode": mode})
    record = check_gates(home, config, prepare_dataset(home, config))
    clauses, first, last = sum(map(len, LICENCE)), len("copyright 2000 author"), len("the end of it")
    # Lines that differ only in digits count as equal, so the first line is counted as a copy.
    copied = (clauses + first) / (clauses + first + last)
    repeated = 8 / 9  # Eight of the nine documents repeat the first one.
    assert result_of(record, "leakage").share == pytest.approx(copied)
    assert result_of(record, "duplicates").share == pytest.approx(repeated)
    leaked = f"{copied:.1%} of the test text also occurs in the training text, line by line"
    again = f"{repeated:.1%} of the test text repeats its own earlier lines"
    assert [warning.partition(";")[0] for warning in record.score_warnings] == [leaked, again]
    for sentence in (leaked, again):
        assert any(sentence in message and "remove the copies" in message.lower() for message in caplog.messages)


@pytest.mark.long
def test_a_dataset_without_its_text_passes_with_a_reason(
    small: tuple[Home, PipelineConfig, DatasetRecord], tmp_path: Path
) -> None:
    home, config, dataset = small
    text = home.corpora / dataset.corpus_digest[:16]
    (home.descriptions / f"copies-{dataset.dataset_id}.json").unlink(missing_ok=True)
    text.rename(tmp_path / "elsewhere")
    try:
        leakage = result_of(check_gates(home, config, dataset), "leakage")
    finally:
        (tmp_path / "elsewhere").rename(text)
    assert (leakage.outcome, leakage.text) == ("not measured", "the text of the corpus is no longer in this home")


def test_without_a_champion_nothing_is_compared_and_nothing_stops(
    small: tuple[Home, PipelineConfig, DatasetRecord],
) -> None:
    home, config, dataset = small
    record = check_gates(home, config, dataset)
    for gate in ("shrinkage", "drift"):
        assert result_of(record, gate).outcome == "not measured"
        assert "rnnlm-small has no champion yet" in result_of(record, gate).text
    record.raise_if_stopped()


def other_text(register: Registrar, texts: dict[str, str]) -> DatasetRecord:
    """Return the dataset of the toy corpus in which `texts` replace the texts of some splits."""
    folder = Path(register.config.corpus.source)
    for split, text in texts.items():
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
    return prepare_dataset(register.home, register.config)


@pytest.mark.long
def test_a_shrunken_corpus_stops_the_night_and_keeps_the_champion(registered: Registrar) -> None:
    unchanged = check_gates(registered.home, registered.config, registered.dataset)
    assert [result_of(unchanged, gate).share for gate in ("shrinkage", "drift")] == [0.0, 0.0]
    folder = Path(registered.config.corpus.source)
    before = {split: (folder / f"{split}.txt").read_text() for split in ("train", "valid", "test")}
    lines = before["train"].splitlines(keepends=True)
    after = before | {"train": "".join(lines[:50])}
    dataset = other_text(registered, after)
    record = check_gates(registered.home, registered.config, dataset)
    share = 1 - sum(map(len, after.values())) / sum(map(len, before.values()))
    assert 0.5 < share < 0.7
    assert result_of(record, "shrinkage").share == pytest.approx(share)
    with pytest.raises(DatasetError, match=r"smaller than the champion's.*\n.*gates\.shrinkage_stop_at"):
        record.raise_if_stopped()
    with reaching_mlflow(registered.home) as client:
        assert str(client.get_registered_model(TOY).aliases["champion"]) == "1"
    larger = other_text(registered, {"train": before["train"] + "the cat sees the dog near the tree .\n"})
    assert result_of(check_gates(registered.home, registered.config, larger), "shrinkage").share == 0.0


@pytest.mark.long
def test_a_text_of_other_characters_stops_the_night(registered: Registrar, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    folder = Path(registered.config.corpus.source)
    train = (folder / "train.txt").read_text()
    kept = json.loads((evidence_folder(registered.home, 1, TOY) / CHARACTERS).read_text())
    assert kept["."] == train.count(".") == 300
    assert "\n" not in kept

    # The text in capitals and the champion's text share only the blank and the full stop, with equal frequencies.
    dataset = other_text(registered, {"train": train.upper()})
    share_common = (train.count(" ") + train.count(".")) / (len(train) - train.count("\n"))
    record = check_gates(registered.home, registered.config, dataset)
    assert result_of(record, "drift").share == pytest.approx(math.sqrt(1 - share_common))
    assert result_of(record, "drift").outcome == "stopped"
    with pytest.raises(DatasetError, match=r"character frequencies.*\n.*gates\.drift_stop_at"):
        record.raise_if_stopped()

    # One additional line hardly changes the distribution.
    same = other_text(registered, {"train": train + "the cat sees the dog near the tree .\n"})
    found = result_of(check_gates(registered.home, registered.config, same), "drift")
    assert found.share is not None
    assert 0 < found.share < 0.01
    assert found.outcome == "passed"


@pytest.mark.long
def test_a_champion_without_character_frequencies_is_not_compared(registered: Registrar) -> None:
    (evidence_folder(registered.home, 1, TOY) / CHARACTERS).unlink()
    dataset = other_text(registered, {"train": "the dog sees the cat .\n" * 200})
    found = result_of(check_gates(registered.home, registered.config, dataset), "drift")
    assert (found.outcome, found.share) == ("not measured", None)
    assert "the character frequencies of version 1 are missing or damaged" in found.text


def test_the_former_setting_of_the_largest_leak_still_stops(
    small: tuple[Home, PipelineConfig, DatasetRecord],
) -> None:
    home, config, dataset = small
    values = config.model_dump(exclude_defaults=True)
    values["sequences"] = {"maximum_leakage": 0.29}
    older = PipelineConfig.model_validate(values)
    with pytest.raises(DatasetError, match=r"30\.0% of the validation text"):
        check_gates(home, older, dataset).raise_if_stopped()


@pytest.mark.parametrize("gates", [["shrinkage"], ["unknown", "drift"], ["shrinkage", "unknown", "leakage", "drift"]])
def test_one_error_names_every_gate_that_stops_with_its_limit(gates: list[str]) -> None:
    results = [
        GateResult(gate=gate, outcome="stopped", share=0.7, text=f"{gate} is 70.0%", warn_at=0.1, stop_at=0.4)
        for gate in gates
    ]
    warned = GateResult(gate="duplicates", outcome="warned", share=0.7, text="copies", warn_at=0.1, stop_at=None)
    record = GatesRecord(corpus_name="toy", model_name="rnnlm-toy", results=(*results, warned))
    with pytest.raises(GatesError) as raised:
        record.raise_if_stopped()
    # The error must survive pickling, because tasks may run in other processes.
    error = pickle.loads(pickle.dumps(raised.value))
    assert error.gates == record
    reasons, advice = str(error).splitlines()
    for gate in gates:
        assert f"{gate} is 70.0% (expected at most 40.0%)" in reasons
        assert f"gates.{gate}_stop_at" in advice
    assert "duplicates" not in str(error)
