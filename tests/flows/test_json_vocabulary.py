"""Commands with --json print the names in docs/reference/json.md, and use the same name for the same value."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flows.command_line import main
from rnnlm.storage.home import Home

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("prefect_server")]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
QUICK = {"model.hidden_size": 16, "training.epochs": 1, "training.device": "cpu", "tokenizer.kind": "word"}


def documented(heading: str) -> set[str]:
    """Return the keys in the table below a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str], tracked_home: Home) -> Any:
    """Return a function that calls a command with --json and returns the printed value."""

    def called(*arguments: str) -> Any:
        capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return called


def test_a_run_a_score_and_a_version_look_the_same_everywhere(answer: Any, toy_folder: Path, tmp_path: Path) -> None:
    settings = [part for path, value in QUICK.items() for part in ("--set", f"{path}={value}")]
    corpus = ["--corpus", str(toy_folder), *settings]
    prepared = answer("prepare", *corpus)
    assert set(prepared) == documented("A prepared text")
    run = answer("run", *corpus)
    same = ("corpus", "corpus_digest", "dataset_id", "train_tokens")
    assert {name: run[name] for name in same} == {name: prepared[name] for name in same}
    assert (prepared["skipped"], run["skipped"]) == ([], ["corpus", "tokenizer", "sequences"])
    other = answer("train", *corpus, "--set", "training.seed=1")
    mixed = answer("mix", run["run_id"], other["run_id"])
    for value in (run, other, mixed):
        assert set(value) == documented("A run")
    assert [len(value["members"]) for value in (run, other, mixed)] == [0, 0, 2]
    assert run["corpus_digest"] == other["corpus_digest"] == mixed["corpus_digest"]
    assert [value["model_version"] for value in (run, other, mixed)] == [1, 2, 3]

    versions = {version["model_version"]: version for version in answer("models")}
    in_short = {one["run_id"]: one for one in answer("runs")}
    for value in (run, other, mixed):
        version, short = versions[value["model_version"]], in_short[value["run_id"]]
        assert set(version) == documented("A version")
        assert set(short) == documented("A run in short")
        shared = {"model_name", "validation_perplexity", "test_perplexity", "bits_per_byte", "dataset_id"}
        assert {name: version[name] for name in shared} == {name: value[name] for name in shared}
        assert short["bits_per_byte"] == value["bits_per_byte"]
        assert short["member_count"] == len(value["members"])

    score = answer("evaluate", run["run_id"])
    assert set(score) == documented("A score of a split")
    assert score["perplexity"] == pytest.approx(run["test_perplexity"], rel=1e-6)
    for name in ("bits_per_byte", "network_bits_per_byte", "counts_bits_per_byte", "unigram_perplexity"):
        assert score[name] == pytest.approx(run[name], rel=1e-6)

    adapted = answer("evaluate", run["run_id"], "--cache")
    assert set(adapted) | set(adapted["variants"][0]) == documented("Scores with adaptation")
    assert adapted["variants"][0]["perplexity"] == pytest.approx(score["network_perplexity"], rel=1e-5)
    assert {name: adapted[name] for name in ("split", "tokens")} == {name: score[name] for name in ("split", "tokens")}

    scored = answer("score", "--input", str(toy_folder / "test.txt"), "--model", run["run_id"])
    assert set(scored) == {"scoring", "drift", "strange"}
    assert set(scored["scoring"]["totals"]) == documented("A score of texts")
    # The text has 40 lines of nine words and <eos>.
    assert scored["scoring"]["totals"]["tokens"] == score["tokens"] == 400
    assert scored["scoring"]["totals"]["bits_per_byte"] == pytest.approx(score["bits_per_byte"], rel=1e-4)

    full = answer("models", "show", f"{run['model_name']}/2")
    in_full = documented("A version") | documented("A version in full")
    assert in_full - {"corpus_licence"} <= set(full) <= in_full
    assert {name: full[name] for name in versions[2]} == versions[2]
    assert full["run_id"] == other["run_id"]
    assert [parent["model_version"] for parent in full["parents"]] == [1]

    change = answer("promote", f"{run['model_name']}/2")
    assert set(change) == documented("A change of champion")
    assert (change["model_name"], change["model_version"], change["before"]) == (run["model_name"], 2, 1)
    compared = answer("runs", "compare", run["run_id"], other["run_id"], "--picture", str(tmp_path / "curves.png"))
    assert compared["runs"] == [in_short[run["run_id"]], in_short[other["run_id"]]]
