"""`rnnlm explain` shows a sentence as a table, as JSON and as a picture."""

import json
from pathlib import Path

import pytest

from flows.command_line import main
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
