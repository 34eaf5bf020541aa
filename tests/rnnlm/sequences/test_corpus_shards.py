"""Shards: the same rows however many processes make them; none made twice; nothing lives on after a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.home import Home
from rnnlm.polling import poll_until
from rnnlm.records import CorpusRecord, TokenizerRecord
from rnnlm.sequences import corpus_shards
from rnnlm.sequences.corpus_shards import Shard, tokenize_shards
from rnnlm.sequences.dataset_writer import stored_rows

SCRIPT = """
import sys
from pathlib import Path
from rnnlm.config import SequencesConfig
from rnnlm.records import CorpusRecord
from rnnlm.sequences import corpus_shards

corpus_shards.SHARD_BYTES, corpus_shards.BYTES_WORTH_A_PROCESS = 2000, 1
corpus = CorpusRecord.model_validate_json(sys.argv[2])
config = SequencesConfig(processes=2)
shards = corpus_shards.tokenize_shards(
    Path(sys.argv[1]), corpus, config, Path(sys.argv[3])
)
print(len(shards))
"""


@pytest.fixture
def corpus(home: Home, toy_tokenizer: TokenizerRecord, tmp_path: Path) -> CorpusRecord:
    """Some 200 kB of the toy corpus's words."""
    text = "".join(f"the cat sees the dog near house{index} .\n" for index in range(6_000))
    (tmp_path / "long.txt").write_text(text)
    return obtain_corpus(home, CorpusConfig(source=str(tmp_path / "long.txt")))


def rows(shards: list[Shard]) -> list[list[int]]:
    return [
        stored_rows(shard.rows(split)).token_ids.tolist() for shard in shards for split in ("train", "valid", "test")
    ]


def run_script(folder: Path, corpus: CorpusRecord, tokenizer: TokenizerRecord) -> "subprocess.Popen[str]":
    """Tokenize in another process, from a script on standard input: it has no file, and no guard around its main."""
    command = [sys.executable, "-", str(folder), corpus.model_dump_json(), str(tokenizer.folder)]
    root = Path(corpus_shards.__file__).parents[2]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(root)}, text=True, **pipes)
    assert process.stdin is not None
    process.stdin.write(SCRIPT)
    process.stdin.close()
    return process


@pytest.mark.slow
def test_any_script_may_tokenize_in_processes(
    corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path
) -> None:
    with run_script(tmp_path / "shards", corpus, toy_tokenizer) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == len(list((tmp_path / "shards").glob("*.documents.parquet"))) > 50


@pytest.mark.long
def test_processes_change_no_row(
    corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 50_000)
    alone = tokenize_shards(tmp_path / "one", corpus, SequencesConfig(processes=1), toy_tokenizer.folder)
    monkeypatch.setattr(corpus_shards, "BYTES_WORTH_A_PROCESS", 1)
    beside = tokenize_shards(tmp_path / "two", corpus, SequencesConfig(processes=2), toy_tokenizer.folder)
    assert len(alone) == len(beside) > 3
    assert rows(alone) == rows(beside)


@pytest.mark.slow
def test_a_killed_run_leaves_no_process_and_its_shards_are_not_made_again(
    corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shards"
    process = run_script(folder, corpus, toy_tokenizer)
    assert poll_until(lambda: len(list(folder.glob("*.documents.parquet"))) >= 3, 60, every_seconds=0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*.documents.parquet")}
    assert len(done) >= 3
    assert len(children) >= 2
    assert poll_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 60, every_seconds=0.01)

    done = {path: path.stat().st_mtime_ns for path in folder.glob("*.documents.parquet")}
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 2000)
    shards = tokenize_shards(folder, corpus, SequencesConfig(processes=1), toy_tokenizer.folder)
    assert len(shards) > len(done)  # it was killed before its end
    assert {path: path.stat().st_mtime_ns for path in done} == done
    again = tokenize_shards(tmp_path / "again", corpus, SequencesConfig(processes=1), toy_tokenizer.folder)
    assert rows(shards) == rows(again)
