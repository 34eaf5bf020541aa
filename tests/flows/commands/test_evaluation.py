"""`rnnlm surprise`, and `rnnlm evaluate` with adaptation or with another corpus, as other programs call them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.command_line import main
from rnnlm.storage.records import CorpusRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.storage.stages import mark_complete
from rnnlm.training.training_run import UNMARKED
from tests.registrar import Registrar

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.long
def test_surprise_is_a_page_of_tables_or_one_value(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, toy_evaluation: EvaluationRecord, tmp_path: Path
) -> None:
    assert main(["surprise", toy_run.run_id, "--pictures", str(tmp_path / "pictures")]) == 0
    page = capsys.readouterr().out
    for title in ("Worst sentences", "By position", "By how often", "By <unk>"):
        assert title in page
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 2
    assert main(["surprise", str(toy_run.folder), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["tables"]["perplexity"] == pytest.approx(toy_evaluation.scores["test"].perplexity, rel=1e-9)
    assert all(Path(picture).exists() for picture in value["pictures"])


@pytest.mark.slow
def test_surprise_of_a_registered_version_is_that_of_its_run(
    capsys: pytest.CaptureFixture[str], registered: Registrar
) -> None:
    assert main(["surprise", "models:/rnnlm-toy@champion", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["run_id"] == registered.run.run_id
    assert main(["surprise", "models:/rnnlm-toy/2"]) == 2
    assert "registered: rnnlm-toy" in capsys.readouterr().err


@pytest.mark.long
def test_other_corpora_are_read_as_the_models_own(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, toy_evaluation: EvaluationRecord, tmp_path: Path
) -> None:
    assert main(["evaluate", toy_run.run_id, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["split"] == "test"
    assert value["perplexity"] == pytest.approx(toy_evaluation.scores["test"].perplexity, rel=1e-6)
    damaged = tmp_path / "damaged.txt"
    damaged.write_bytes(b"the cat sees the dog .\n" * 50 + b"the \xff cat .\n")
    evaluate = ["evaluate", toy_run.run_id, "--corpus", str(damaged)]
    assert main(evaluate) == 0
    assert main([*evaluate, "--set", "corpus.undecodable=refuse"]) == 2
    assert "set corpus.undecodable=replace" in capsys.readouterr().err
    train_with(toy_run, undecodable="refuse")
    assert main(evaluate) == 2


def train_with(run: RunRecord, **corpus: str) -> None:
    """Change the stored configuration of a run, as if it had been trained with these settings of the corpus."""
    settings = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    settings["corpus"] |= corpus
    (run.folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    mark_complete(run.folder, apart_from=UNMARKED)


def test_saved_probabilities_give_the_perplexity(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, toy_evaluation: EvaluationRecord, tmp_path: Path
) -> None:
    file = tmp_path / "test.parquet"
    assert main(["evaluate", toy_run.run_id, "--save-probabilities", str(file)]) == 0
    saved = pq.read_table(file)
    score = toy_evaluation.scores["test"]
    assert len(saved) == score.tokens
    assert np.exp(-np.log(saved["probability"]).mean()) == pytest.approx(score.perplexity, rel=1e-5)
    # Each of the 40 test sentences of the toy corpus ends with <eos>.
    assert saved["token"].to_pylist().count("<eos>") == 40
    capsys.readouterr()
    for wrong in ([str(file.with_suffix(".txt"))], [str(file), "--cache"], ["/proc/x/test.parquet"]):
        assert main(["evaluate", toy_run.run_id, "--save-probabilities", *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) <= 3


@pytest.mark.long
def test_evaluate_shows_what_is_on_top_apart(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, toy_corpus: CorpusRecord, toy_evaluation: EvaluationRecord
) -> None:
    corpus = ["evaluate", toy_run.run_id, "--corpus", str(toy_corpus.folder)]
    assert (
        main([*corpus, "--dynamic", "--dynamic-rate", "0.5", "--cache", "--interpolate", "kneser-ney", "--json"]) == 0
    )
    value = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in value["variants"]}
    both, counts = "dynamic + cache", "with 5-gram Kneser-Ney"
    assert list(rows) == ["static", "dynamic", "cache", both, counts, "dynamic + cache + counts"]
    network = toy_evaluation.scores["test"].network
    assert network is not None
    assert rows["static"]["perplexity"] == pytest.approx(network.perplexity, rel=1e-6)
    assert rows["dynamic"]["settings"]["rate"] == 0.5
    assert main([*corpus, "--cache", "--cache-share", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["model", "static", "cache"]
    assert lines[1].split()[2] == lines[2].split()[2]


@pytest.mark.long
def test_a_model_is_measured_on_the_text_that_it_was_trained_on(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    toy_folder: Path,
    toy_corpus: CorpusRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    tmp_path: Path,
) -> None:
    """A run is evaluated on the stored copy of its text, even if another text is now at the text's path."""
    train_with(toy_run, source="texts")  # The path is relative to the folder where the model was trained.
    own = pytest.approx(toy_evaluation.scores["test"].perplexity, rel=1e-6)

    def perplexity(*options: str) -> float:
        assert main(["evaluate", toy_run.run_id, "--json", *options]) == 0
        return float(json.loads(capsys.readouterr().out)["perplexity"])

    monkeypatch.chdir(tmp_path)
    assert perplexity() == own  # The relative path names no file in this folder, so the run's stored text is used.
    (tmp_path / "texts").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "texts" / f"{split}.txt").write_text("quite another text\n" * 100)
    assert perplexity() == own
    assert perplexity("--corpus", "texts") != own
    assert main(["evaluate", toy_run.run_id, "--set", "corpus.lowercase=true"]) == 2
    assert "--corpus TEXT" in capsys.readouterr().err
    text = toy_corpus.folder
    (text / "test.txt").write_text("changed\n" * 50)
    assert main(["evaluate", toy_run.run_id]) == 2
    assert "is damaged" in capsys.readouterr().err
    shutil.rmtree(text)
    assert main(["evaluate", toy_run.run_id]) == 2
    told = capsys.readouterr().err
    assert "is not in this home" in told
    assert "its source now has another text" in told
    shutil.rmtree(tmp_path / "texts")
    (tmp_path / "texts").symlink_to(toy_folder)
    assert perplexity() == own  # The text at the path has the digest of the run's text.
