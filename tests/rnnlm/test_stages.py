"""Results kept in a run carry their digest, and a full disk is one clear message in every stage."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rnnlm.config import EvaluationConfig
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord
from rnnlm.stages import write_json_once

FULL = """
import sys
from pathlib import Path
from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import HomeError
from rnnlm.home import Home
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

home, source, stage, room = Home(Path(sys.argv[1])), CorpusConfig(source=sys.argv[2]), sys.argv[3], int(sys.argv[4])

def fill():
    with (home.root / "filling").open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
        stream.truncate(max(0, stream.tell() - room))

try:
    home.root.mkdir(parents=True, exist_ok=True)
    if stage == "corpus":
        fill()
    corpus = obtain_corpus(home, source)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig())
    fill()
    store_sequences(home, corpus, tokenizer, SequencesConfig(mode="stream", processes=1))
except HomeError as error:
    print(error)
else:
    print("no error")
"""


def test_an_edited_evaluation_is_measured_again(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    path = toy_run.folder / "evaluation.json"
    kept = json.loads(path.read_text())
    kept["value"]["test"]["perplexity"] = 1.01
    path.write_text(json.dumps(kept))
    again = evaluate_run(home, toy_dataset, toy_run, EvaluationConfig())
    assert (again.skipped, again.scores) == (False, toy_evaluation.scores)
    assert evaluate_run(home, toy_dataset, toy_run, EvaluationConfig()).skipped


def test_a_result_is_made_once_for_a_key(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert write_json_once(home, path, "a", lambda: {"x": (1, 2)}) == ({"x": [1, 2]}, False)
    assert write_json_once(home, path, "a", lambda: pytest.fail("made twice")) == ({"x": [1, 2]}, True)
    assert write_json_once(home, path, "b", lambda: 3) == (3, False)


@pytest.mark.parametrize(
    ("stage", "room_bytes"),
    [("corpus", 200_000), ("sequences", 0), ("sequences", 100_000), ("sequences", 600_000), ("sequences", 1_200_000)],
)
def test_a_full_disk_is_one_clear_message(tmp_path: Path, stage: str, room_bytes: int) -> None:
    """On a real file system of 8 MiB, mounted in a namespace of its own."""
    namespace = ["unshare", "--map-root-user", "--mount"]
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=8m none {disk} && exec"
    if subprocess.run([*namespace, "sh", "-c", f"{mount} true"], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system in a namespace")
    text = tmp_path / "text.txt"
    text.write_text("".join(f"sentence {number} of a text about nothing\n" for number in range(60_000)))
    command = [sys.executable, "-c", FULL, str(disk / "home"), str(text), stage, str(room_bytes)]
    done = subprocess.run(
        [*namespace, "sh", "-c", f'{mount} "$@"', "sh", *command],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert re.search("(?i)no space", done.stdout), done.stdout + done.stderr
    assert "ree some space" in done.stdout
    assert len(done.stdout.splitlines()) <= 2
