"""The rows do not depend on the size of the shards or on the workers. Each shard is tokenized only once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rnnlm.config import CorpusConfig, SequencesConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import ByteRange
from rnnlm.runtime.engines import Engine
from rnnlm.runtime.polling import poll_until
from rnnlm.sequences import corpus_shards
from rnnlm.sequences.corpus_shards import Shard, ShardMaker, tokenize_shards
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.sequences.table_writer import stored_rows
from rnnlm.storage.home import Home
from rnnlm.storage.records import SPLITS, CorpusRecord, DatasetRecord, TokenizerRecord

SCRIPT = """
import sys
from pathlib import Path
from rnnlm.config import SequencesConfig
from rnnlm.storage.records import CorpusRecord
from rnnlm.sequences import corpus_shards

corpus_shards.SHARD_BYTES = 2000
corpus = CorpusRecord.model_validate_json(sys.argv[2])
corpus_shards.tokenize_shards(Path(sys.argv[1]), corpus, SequencesConfig(), Path(sys.argv[3]))
"""


@pytest.fixture
def corpus(home: Home, toy_tokenizer: TokenizerRecord, tmp_path: Path) -> CorpusRecord:
    """Return a corpus of about 200 kB with the words of the toy corpus."""
    text = "".join(f"the cat sees the dog near house{index} .\n" for index in range(6_000))
    (tmp_path / "long.txt").write_text(text)
    return obtain_corpus(home, CorpusConfig(source=str(tmp_path / "long.txt")))


def rows(shards: list[Shard]) -> list[list[int]]:
    return [stored_rows(shard.rows(split)).token_ids.tolist() for shard in shards for split in SPLITS]


def tables(dataset: DatasetRecord) -> list[list[tuple[Any, ...]]]:
    """Return the tables that depend on the text: the sequences, the documents, and the vocabulary with counts."""
    queries = (
        "select split, sequence_id, token_ids, input_ids, target_ids from shifted_sequences order by all",
        "select * from documents order by document_id",
        "select * from tokens order by token_id",
    )
    with duckdb.connect(str(dataset.database), read_only=True) as connection:
        return [connection.execute(query).fetchall() for query in queries]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_the_size_of_shards_changes_nothing(
    home: Home,
    corpus: CorpusRecord,
    toy_tokenizer: TokenizerRecord,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = SequencesConfig.model_validate({"mode": mode, "context_length": 5, "block_length": 7})
    one = store_sequences(home, corpus, toy_tokenizer, config)
    before = tables(one)
    assert len(before[0]) > 6_000
    # With this size, shards do not end at the ends of documents.
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 9_000)
    monkeypatch.setattr(corpus_shards, "SHARDS_A_FOLDER", 3)
    many = store_sequences(home, corpus, toy_tokenizer, config, force=True)
    assert many.dataset_id == one.dataset_id
    assert not many.skipped
    assert tables(many) == before


def test_a_shard_is_tokenized_in_pieces_of_the_same_rows(
    corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [name] = corpus.files.values()
    make = ShardMaker(corpus, SequencesConfig(), toy_tokenizer.folder)
    whole, pieces = (Shard(tmp_path / sub, 0, ByteRange(name, 0, corpus.corpus_bytes)) for sub in ("a", "b"))
    whole.folder.mkdir()
    pieces.folder.mkdir()
    tokens = make(whole)
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 50_000)
    assert make(pieces) == tokens
    assert corpus_shards.pq.ParquetFile(pieces.documents).num_row_groups > 3
    for split in SPLITS:
        assert stored_rows(whole.rows(split)).token_ids.tolist() == stored_rows(pieces.rows(split)).token_ids.tolist()
        assert stored_rows(whole.rows(split)).offsets.tolist() == stored_rows(pieces.rows(split)).offsets.tolist()


@pytest.mark.long
def test_an_engine_changes_no_row_and_few_shards_wait(
    corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 9_000)
    alone = tokenize_shards(tmp_path / "one", corpus, SequencesConfig(), toy_tokenizer.folder)
    unfinished: list[int] = []

    @contextmanager
    def threads(worth: int) -> Iterator[Engine]:
        futures = []

        def submit(*call: Any) -> Any:
            futures.append(TakenResult(pool.submit(*call)))
            unfinished.append(sum(not future.taken for future in futures))
            return futures[-1]

        assert worth == 1  # A second worker would not make the tokenization of at most 32 MiB faster.
        with ThreadPoolExecutor(2) as pool:
            yield Engine(submit, 2)

    beside = tokenize_shards(tmp_path / "two", corpus, SequencesConfig(), toy_tokenizer.folder, threads)
    assert len(alone) == len(beside) > 20
    assert rows(alone) == rows(beside)
    assert max(unfinished) == 5


class TakenResult:
    """The result of a function call, which records whether it was read."""

    def __init__(self, future: Any) -> None:
        self.future, self.taken = future, False

    def result(self) -> Any:
        self.taken = True
        return self.future.result()


@pytest.mark.slow
@pytest.mark.parametrize("size", [2000, 3000])
def test_a_killed_run_continues_from_its_complete_shards(
    corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A run after a killed run does not tokenize complete shards again.

    The shards of the killed run have 2,000 bytes. The rows are the same if the new run's shards have another size.
    """
    folder = tmp_path / "shards"
    done = killed_run(folder, corpus, toy_tokenizer)
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", size)
    shards = tokenize_shards(folder, corpus, SequencesConfig(), toy_tokenizer.folder)
    assert len(done) >= 3
    if size == 2000:
        assert len(shards) > len(done)  # Some shards are missing, because the run was killed before its end.
        assert {path: path.stat().st_mtime_ns for path in done} == done  # The complete shards were not written again.
    again = tokenize_shards(tmp_path / "again", corpus, SequencesConfig(), toy_tokenizer.folder)
    assert rows(shards) == rows(again)


def killed_run(folder: Path, corpus: CorpusRecord, tokenizer: TokenizerRecord) -> dict[Path, int]:
    """Kill a process that tokenizes shards.

    Return the files of complete shards, with the time at which each was written.
    """
    command = [sys.executable, "-c", SCRIPT, str(folder), corpus.model_dump_json(), str(tokenizer.folder)]
    root = Path(corpus_shards.__file__).parents[2]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(root)}) as process:
        assert poll_until(lambda: len(list(folder.rglob("*.documents.parquet"))) >= 3, 60, every_seconds=0.01)
        process.send_signal(signal.SIGKILL)
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.documents.parquet")}
