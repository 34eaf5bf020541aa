"""Other programs can run `rnnlm export` and `rnnlm lm-eval`."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.models.mixture import save_mixture
from rnnlm.storage.records import RunRecord

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "use-a-model.md"
TEXT = "the cat sees the dog near the river .\n\nthe zebra likes the naïve fox .\nthe bird follows the cat\n"


pytestmark = pytest.mark.usefixtures("home")


def value_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    value: dict[str, object] = json.loads(capsys.readouterr().out)
    return value


def figures(value: dict[str, object]) -> dict[str, float]:
    """Return the metrics of the only evaluated task."""
    rows = value["metrics"]
    assert isinstance(rows, list)
    return {row["metric"]: row["value"] for row in rows}


@pytest.mark.long
@pytest.mark.parametrize("place", ["taken/model.onnx", "folder", "pipe", "/proc/model.onnx", f"{'a' * 300}.onnx"])
def test_an_unwritable_file_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path, place: str
) -> None:
    pytest.importorskip("onnxruntime", reason="extra onnx")
    (tmp_path / "taken").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    assert main(["export", str(toy_run.folder), "--output", str(tmp_path / place)]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("rnnlm: ")
    assert Path(place).name in told
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.long
@pytest.mark.parametrize("kind", [pytest.param("stream", marks=pytest.mark.slow), "sentence"])
def test_the_harness_finds_the_bits_per_byte_that_evaluate_finds(
    capsys: pytest.CaptureFixture[str], stream_folder: Path, toy_run: RunRecord, tmp_path: Path, kind: str
) -> None:
    """The harness reports the same bits per byte as `rnnlm evaluate`, to four digits.

    The text has blank lines, unknown words, letters of two bytes and several windows.
    """
    pytest.importorskip("lm_eval", reason="extra lm-eval")
    folder = str(stream_folder if kind == "stream" else toy_run.folder)
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 30, encoding="utf-8")
    ours = value_of(capsys, "evaluate", folder, "--corpus", str(path))
    theirs = figures(value_of(capsys, "lm-eval", folder, "--file", str(path)))
    assert ours["split"] == "all"
    assert f"{theirs['bits_per_byte']:.4f}" == f"{ours['bits_per_byte']:.4f}"
    assert theirs["bits_per_byte"] == pytest.approx(ours["bits_per_byte"], rel=1e-6)
    assert theirs["byte_perplexity"] == pytest.approx(2 ** theirs["bits_per_byte"])
    assert main(["lm-eval", folder, "--file", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["task", "metric", "filter", "documents", "value", "std.", "error"]
    assert any(line.split()[:2] == ["file-text", "bits_per_byte"] for line in lines)


@pytest.mark.long
def test_a_file_is_read_as_evaluate_reads_it(
    capsys: pytest.CaptureFixture[str], stream_folder: Path, tmp_path: Path
) -> None:
    """The harness reads a compressed file with a byte-order mark and Windows line ends like `rnnlm evaluate`."""
    pytest.importorskip("lm_eval", reason="extra lm-eval")
    import gzip

    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(("\ufeff" + TEXT.replace("\n", "\r\n") + "the end").encode("utf-8")))
    ours = value_of(capsys, "evaluate", str(stream_folder), "--corpus", str(path))
    theirs = figures(value_of(capsys, "lm-eval", str(stream_folder), "--file", str(path)))
    assert theirs["bits_per_byte"] == pytest.approx(ours["bits_per_byte"], rel=1e-6)


@pytest.mark.slow
def test_ten_lines_of_the_reference_continue_a_text(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    """The program in docs/how-to/use-a-model.md runs unchanged, with only onnxruntime and tokenizers."""
    pytest.importorskip("onnxruntime", reason="extra onnx")
    pytest.importorskip("onnxscript", reason="extra onnx")
    (program,) = re.findall(r"```python\n(import json, numpy, onnxruntime.*?)```", REFERENCE.read_text("utf-8"), re.S)
    assert main(["export", toy_run.run_id, "--output", str(tmp_path / "onnx" / "model.onnx")]) == 0
    assert "checked in onnxruntime" in capsys.readouterr().out
    guard = "import sys; sys.modules['torch'] = sys.modules['rnnlm'] = sys.modules['transformers'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", guard + program], cwd=tmp_path / "onnx", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    prompt = re.search(r'encode\("(.*?)"', program)
    assert prompt is not None
    network = shutil.copytree(toy_run.model_folder, tmp_path / "network")
    # Remove the n-gram model from the mixture, because the exported file contains only the network.
    save_mixture(None, network)
    generated = value_of(
        capsys, "generate", str(network), "--prompt", prompt[1], "--temperature", "0", "--maximum-tokens", "20"
    )
    assert done.stdout.strip() == generated["text"]
    assert generated["text"]


def test_tasks_and_files_that_cannot_be_read_are_reported(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    pytest.importorskip("lm_eval", reason="extra lm-eval")
    assert main(["lm-eval", toy_run.run_id, "--file", str(tmp_path / "nothing.txt")]) == 2
    assert "nothing.txt" in capsys.readouterr().err
    data = tmp_path / "nothing.jsonl"
    task = f"task: bad\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
    (tmp_path / "bad.yaml").write_text(task, encoding="utf-8")
    assert main(["lm-eval", toy_run.run_id, "--tasks", str(tmp_path / "bad.yaml")]) == 2
    err = capsys.readouterr().err
    assert len(err[err.index("rnnlm: --tasks") :].strip().splitlines()) <= 3


def test_control_characters_that_a_model_writes_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    folder = shutil.copytree(toy_run.model_folder, tmp_path / "model")
    saved = (folder / "tokenizer.json").read_text(encoding="utf-8")
    for word in ("the", "cat", "near", "house", "tree", "river"):
        saved = saved.replace(f'"{word}"', f'"\\u001b[2J{word}"')
    (folder / "tokenizer.json").write_text(saved, encoding="utf-8")
    command = ["generate", str(folder), "--prompt", "a", "--maximum-tokens", "60", "--temperature", "5"]
    assert "\x1b[2J" in str(value_of(capsys, *command)["text"])
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed


def test_a_token_that_is_refused_is_not_shown(capsys: pytest.CaptureFixture[str], toy_run: RunRecord) -> None:
    assert main(["serve", str(toy_run.folder), "--token", "hunter2"]) == 2
    told = capsys.readouterr().err
    assert "token" in told
    assert "hunter2" not in told
