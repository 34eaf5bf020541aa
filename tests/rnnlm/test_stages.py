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
import json
import sys
from pathlib import Path
from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import HomeError
from rnnlm.home import Home
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

def fill(folder, room):
    with (folder / "filling").open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
        stream.truncate(max(0, stream.tell() - room))

def told(disk, source, stage, room):
    home = Home(disk / "home")
    home.root.mkdir(parents=True)
    try:
        if stage == "corpus":
            fill(home.root, room)
        corpus = obtain_corpus(home, CorpusConfig(source=source))
        tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
        fill(home.root, room)
        store_sequences(home, corpus, tokenizer, SequencesConfig(mode="stream", processes=1))
    except HomeError as error:
        return str(error)
    return "no error"

disks, source, cases = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
print(json.dumps([told(disks / str(number), source, *case) for number, case in enumerate(cases)]))
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


@pytest.mark.slow
def test_a_full_disk_is_one_clear_message(tmp_path: Path) -> None:
    """On real file systems of 8 MiB, mounted in a namespace of their own; in one process: importing takes seconds."""
    cases = [("corpus", 200_000), *(("sequences", room_bytes) for room_bytes in (0, 100_000, 600_000, 1_200_000))]
    namespace = ["unshare", "--map-root-user", "--mount"]
    mount = "set -e; "
    for number in range(len(cases)):
        (tmp_path / str(number)).mkdir()
        mount += f"mount -t tmpfs -o size=8m none {tmp_path / str(number)}; "
    if subprocess.run([*namespace, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system in a namespace")
    text = tmp_path / "text.txt"
    text.write_text("".join(f"sentence {number} of a text about nothing\n" for number in range(60_000)))
    command = [sys.executable, "-c", FULL, str(tmp_path), str(text), json.dumps(cases)]
    done = subprocess.run(
        [*namespace, "sh", "-c", f'{mount} exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(cases)
    for case, told in zip(cases, answers, strict=True):
        assert re.search("(?i)no space", told), case
        assert "ree some space" in told, case
        assert len(told.splitlines()) <= 2, case
