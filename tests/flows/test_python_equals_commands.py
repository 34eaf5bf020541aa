"""The Python interface returns the values that the commands print, for very different models and texts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import rnnlm
from flows.command_line import main
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.training.training_run import run_training
from tests.configs import changed, plain_config
from tests.conftest import home_in, untracked

pytestmark = pytest.mark.long
LINES = (  # The lines of the training text.
    "the cat sees the dog near the river .",
    "Кошка видит собаку у реки .",
    "猫看见河边的狗。",
    "naïve cats 👍🏽 like tea",
)
TEXTS = (
    "",
    "the cat sees the quokka",
    "Кошка видит слона",
    "猫看见大象。",
    "naïve dogs 👩‍👩‍👧 like 👍🏽",
    "the cat\r\nsees\r\n\r\nthe dog\r\n",
    "the cat sees the dog near the river . " * 2_600,  # This line has 100 kB.
)
MODELS: dict[str, dict[str, Any]] = {
    "characters in a stream": {"tokenizer.kind": "char", "sequences.mode": "stream", "model.counts": 0},
    "words, mixed with counts": {"tokenizer.kind": "word"},
    "pieces of words": {"tokenizer.kind": "bpe", "model.kind": "lstm", "model.counts": 0},
    "pieces in a stream, mixed": {"tokenizer.kind": "bpe", "sequences.mode": "stream"},
    "counts alone": {"tokenizer.kind": "word", "model.kind": "kneser-ney"},
}


@pytest.fixture(scope="module", params=list(MODELS))
def run_id(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Train one of MODELS in a new rnnlm home at RNNLM_HOME, and yield the run's id."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text").mkdir()
    for split, count in (("train", 60), ("valid", 8), ("test", 8)):
        text = "".join(f"{line}\n" for _ in range(count) for line in LINES)
        (folder / "text" / f"{split}.txt").write_text(text, encoding="utf-8")
    plain = {"corpus.source": str(folder / "text"), "tokenizer.vocabulary_size": 300, "model.hidden_size": 16}
    config = changed(plain_config(plain | {"training.device": "cpu"}), MODELS[request.param])
    with home_in(folder) as home:
        yield run_training(home, config, prepare_dataset(home, config), untracked).run_id


@pytest.fixture
def model(run_id: str) -> "rnnlm.Model":
    return rnnlm.load(run_id)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return the value that a command prints with --json."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def nearly(value: float | None) -> Any:
    """Return an object that equals the value up to rounding. None means NaN."""
    return pytest.approx(float("nan") if value is None else value, rel=1e-5, nan_ok=True)


@pytest.mark.usefixtures("prefect_server")
def test_scores_are_those_of_the_command(
    model: "rnnlm.Model", run_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"text": text}) for text in TEXTS]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    places = ["--input", str(tmp_path / "texts.jsonl"), "--output", str(tmp_path / "scores.parquet")]
    answer(capsys, "score", *places, "--model", run_id)
    expected = pq.read_table(tmp_path / "scores.parquet").to_pylist()
    scores = model.score(TEXTS)
    assert len(scores) == len(expected) == len(TEXTS)
    for row, wanted in zip(scores.to_dict("records"), expected, strict=True):
        assert row == {
            "text": row["text"],
            **{name: nearly(wanted[name]) for name in ("bits_per_byte", "perplexity", "tokens", "unknown_rate")},
        }
    assert [len(model.tokens(text)) for text in TEXTS] == scores["tokens"].tolist()


def test_texts_are_those_of_the_command(model: "rnnlm.Model", run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    for prompt in ("", "the cat", "Кошка", "猫看", "👍🏽"):
        samples = answer(capsys, "generate", run_id, "--prompt", prompt, "-n", "3", "--seed", "1")
        assert model.generate(prompt, n=3, seed=1) == [sample["whole"] for sample in samples]
    cold = answer(capsys, "generate", run_id, "--temperature", "0.5", "--maximum-tokens", "7")
    assert model.generate(temperature=0.5, maximum_tokens=7) == [cold["whole"]]


def test_perplexity_is_that_of_evaluating_a_file(
    model: "rnnlm.Model", run_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The line is shorter than the 8,192 characters at which rnnlm would split it and log that.
    long_line = TEXTS[-1][:8_000]
    text = "".join(f"{line}\n" for line in [*LINES, *TEXTS[1:5]] * 3) + f"{long_line}\r\nthe dog\r\n"
    (tmp_path / "texts.txt").write_bytes(text.encode())
    score = answer(capsys, "evaluate", run_id, "--corpus", str(tmp_path / "texts.txt"))
    assert (score["split"], score["perplexity"]) == ("all", nearly(model.perplexity(text)))
    (row,) = model.score([text]).to_dict("records")
    assert row["tokens"] == score["tokens"]
    assert row["bits_per_byte"] == nearly(score["bits_per_byte"])


def test_steps_are_those_of_the_command(model: "rnnlm.Model", run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("the cat sees the quokka", "猫看见大象。\nКошка"):
        steps = answer(capsys, "explain", text, run_id)["steps"]
        for step in steps:
            step["alternatives"] = [tuple(one.values()) for one in step["alternatives"]]
            del step["state"]
        found = model.explain(text).to_dict("records")
        for step in found:
            step["alternatives"] = [tuple(one.values()) for one in step["alternatives"]]
        assert found == steps
