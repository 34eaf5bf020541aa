"""The commands models, promote and rollback, as users and other programs call them."""

import json

import pytest

from flows.command_line import main
from rnnlm.storage.records import DatasetRecord
from tasks.training import train_model
from tests.configs import changed
from tests.registrar import Registrar

pytestmark = pytest.mark.long
NAME = "rnnlm-toy"


@pytest.fixture(autouse=True)
def two_versions(registered: Registrar) -> None:
    """Register versions 1 (champion) and 2 (challenger) of rnnlm-toy."""
    registered(force=True)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    told = capsys.readouterr().err.strip()
    assert len(told.splitlines()) <= 3
    return told


def test_models_are_listed_whole_the_best_and_by_dataset(
    capsys: pytest.CaptureFixture[str], toy_dataset: DatasetRecord
) -> None:
    def versions(*arguments: str) -> list[int]:
        return [row["model_version"] for row in json.loads(said(capsys, "models", *arguments, "--json"))]

    assert versions() == [2, 1]
    assert versions("--best") == [1]  # Both versions have the same score, so the first one is shown.
    assert versions("--dataset", toy_dataset.dataset_id[:8]) == [2, 1]
    assert versions("--dataset", "0123abcd", "--best") == []
    assert "no models of that dataset" in said(capsys, "models", "--dataset", "0123abcd")
    assert "_lock" not in said(capsys, "models")


def test_a_version_is_shown_with_its_lineage(capsys: pytest.CaptureFixture[str], toy_dataset: DatasetRecord) -> None:
    text = said(capsys, "models", "show", f"{NAME}/2")
    assert f"sha256 {toy_dataset.corpus_digest}" in " ".join(text.split())
    assert "parent     version 1" in text
    value = json.loads(said(capsys, "models", "show", f"{NAME}@challenger", "--json"))
    assert value["model_version"] == 2
    assert value["corpus_digest"] == toy_dataset.corpus_digest
    # The validation text of the toy corpus is one document with 24 lines.
    assert (value["evidence"]["documents"], value["evidence"]["lines"]) == (1, 24)
    assert "because it was trained on no newer text" in " ".join(text.split())
    assert [parent["model_version"] for parent in value["parents"]] == [1]


def test_promoted_by_hand_and_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "promote", f"{NAME}/2", "--reason", "sounds better")
    assert f"{NAME} version 2 is champion" in text
    assert "by hand, in place of version 1" in text
    assert "sounds better" in text
    change = json.loads(said(capsys, "rollback", NAME, "--json"))
    assert (change["model_version"], change["before"], change["how"]) == (1, 2, "rollback")
    shown = said(capsys, "models", "show", NAME)
    assert f"{NAME} 1 (champion)" in shown
    assert "the first" in shown
    assert "by a rollback, in place of version 2" in shown


def test_wrong_arguments_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such version" in refused(capsys, "promote", f"{NAME}/9")
    assert f"registered: {NAME}" in refused(capsys, "models", "show", "nobody/1")
    assert "no champion is known before version 1" in refused(capsys, "rollback", NAME)
    assert "no such model" in refused(capsys, "rollback", "nobody")


def test_networks_are_mixed_to_a_version_that_answers(
    registered: Registrar, capsys: pytest.CaptureFixture[str], prefect_server: None
) -> None:
    config = changed(registered.config, {"training.seed": 3})
    other = train_model.fn(config, registered.dataset)
    runs = [registered.run.run_id, other.run_id]
    mixed = json.loads(said(capsys, "mix", *runs, "--json"))
    assert [member["run_id"] for member in mixed["members"]] == runs
    number = mixed["model_version"]
    assert number == 3
    text = said(capsys, "mix", *runs)
    assert f"version {number}" in " ".join(text.split())
    assert "share" in text.splitlines()[0]
    card = said(capsys, "models", "show", f"{NAME}/{number}")
    assert mixed["run_id"] in card
    assert "ensemble of 2" in said(capsys, "runs")
    assert json.loads(said(capsys, "generate", f"{NAME}/{number}", "--prompt", "the cat", "--json"))
    assert "best guesses" in said(capsys, "explain", "the cat sees the dog .", f"{NAME}/{number}")
    assert "expected a single network" in refused(
        capsys, "export", f"{NAME}/{number}", "--format", "onnx", "--output", "x.onnx"
    )
    assert "dynamic + cache" in said(capsys, "evaluate", f"{NAME}/{number}", "--dynamic", "--cache")
    assert "an ensemble" in refused(capsys, "mix", mixed["run_id"], runs[0])
