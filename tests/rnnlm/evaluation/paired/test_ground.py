"""The common ground is the validation text that neither model was trained on, each text once."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.errors import CorpusError
from rnnlm.evaluation.paired import ground as grounds
from rnnlm.evaluation.paired.ground import common_ground, read_texts, write_training_digests
from tests.rnnlm.evaluation.paired.texts import TRAIN, VALID, Ground


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def others(path: Path, *texts: str) -> Path:
    """The digests of what another model was trained on."""
    pq.write_table(pa.table({"sha256": pa.array(sorted(map(sha256, texts)), pa.string())}), path)
    return path


def test_the_digests_are_those_of_the_training_documents_sorted(ground: Ground, tmp_path: Path) -> None:
    assert write_training_digests(ground.dataset, tmp_path / "digests.parquet") == 2
    digests = pq.read_table(tmp_path / "digests.parquet")
    assert digests.column("sha256").to_pylist() == sorted({sha256(text) for text in TRAIN})


def test_what_either_was_trained_on_and_repetitions_are_left_out(ground: Ground, tmp_path: Path) -> None:
    own = tmp_path / "own.parquet"
    write_training_digests(ground.dataset, own)
    left = common_ground(ground.dataset, [own])
    assert [document.sha256 for document in left] == [sha256(VALID[number]) for number in (0, 2, 4)]
    left = common_ground(ground.dataset, [own, others(tmp_path / "others.parquet", "a bird runs .\n\n", "else")])
    assert [document.sha256 for document in left] == [sha256(VALID[number]) for number in (0, 4)]
    everything = others(tmp_path / "everything.parquet", *VALID)
    assert common_ground(ground.dataset, [own, everything]) == []


def test_their_text_is_the_corpus_bytes(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = common_ground(ground.dataset, [others(tmp_path / "none.parquet")])
    for at_once in (1, 30, 1 << 20):
        monkeypatch.setattr(grounds, "TEXT_BYTES_AT_ONCE", at_once)
        parts = list(read_texts(ground.corpus_folder, documents))
        assert [text for part in parts for _, text in part] == [VALID[number] for number in (0, 1, 2, 4)]
    assert len(parts) == 1


def test_a_corpus_that_is_gone_or_another_one_is_told(ground: Ground, tmp_path: Path) -> None:
    documents = common_ground(ground.dataset, [others(tmp_path / "none.parquet")])
    text = ground.corpus_folder / "valid.txt"
    text.chmod(0o644)
    text.write_text("".join(VALID).replace("bird", "boar"))
    with pytest.raises(CorpusError, match="not those the dataset was made from"):
        list(read_texts(ground.corpus_folder, documents))
    text.unlink()
    with pytest.raises(CorpusError, match="cannot be read"):
        list(read_texts(ground.corpus_folder, documents))
