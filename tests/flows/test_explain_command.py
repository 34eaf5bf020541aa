"""`rnnlm explain` as another program calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.home import Home
from rnnlm.storage.records import RunRecord

pytestmark = pytest.mark.usefixtures("home")
SENTENCE = "the cat sees the zebra"


def test_a_sentence_is_a_table_a_value_and_a_picture(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    picture = tmp_path / "new" / "state.png"
    assert main(["explain", SENTENCE, toy_run.run_id, "--picture", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["reads", "→", "predicts", "p", "loss", "rank", "best", "guesses"]
    assert [line.split()[:3:2] for line in lines[1:7]] == [
        *(["<bos>", "the"], ["the", "cat"], ["cat", "sees"]),
        *(["sees", "the"], ["the", "zebra"], ["zebra", "<eos>"]),
    ]
    assert "zebra 1*" in lines[5]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["explain", SENTENCE, toy_run.run_id, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert f"perplexity {value['perplexity']:.2f}; {value['bits_per_byte']:.3f} bits per byte" in lines[8]
    assert [len(step["state"][0]) for step in value["steps"]] == [16] * 6
    assert value["steps"][4]["spelling_bits"] == 48


def test_a_picture_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], toy_run: RunRecord, tmp_path: Path
) -> None:
    assert main(["explain", SENTENCE, toy_run.run_id, "--picture", str(tmp_path)]) == 2
    assert f"--picture {tmp_path}" in capsys.readouterr().err


@pytest.mark.long
def test_a_wrong_model_is_answered_without_torch(home: Home) -> None:
    code = (
        "import sys; from flows.command_line import main; main(['explain', 'the cat', 'nobody']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "nobody" in done.stderr
    assert "torch" not in done.stdout.split()
