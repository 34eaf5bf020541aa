"""The common ground is the validation text that the training of neither model has seen, each text once."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.corpora.splits import text_fingerprint
from rnnlm.errors import CorpusError
from rnnlm.evaluation.paired import holdout_documents as grounds
from rnnlm.evaluation.paired.holdout_documents import (
    HoldoutDocument,
    bound_of,
    cut_into_blocks,
    holdout_documents,
    read_texts,
    write_known_digests,
)
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.tuning_sample import RowSample, tuning_sample
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, load_tokenizer
from tests.rnnlm.evaluation.paired.conftest import TRAIN, VALID, Ground


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def others(path: Path, *texts: str) -> Path:
    """The digests of what another model was trained on."""
    pq.write_table(pa.table({"sha256": pa.array(sorted(map(sha256, texts)), pa.string())}), path)
    return path


def known(ground: Ground, folder: Path) -> tuple[Path, list[str]]:
    """The file of what training has seen, and the validation documents that it names."""
    path = folder / "known.parquet"
    write_known_digests(ground.dataset, 1, path)
    digests = pq.read_table(path).column("sha256").to_pylist()
    assert digests == sorted(set(digests))
    assert {text_fingerprint(text.encode())[:16] for text in TRAIN} <= set(digests)
    return path, [text for text in VALID if text_fingerprint(text.encode())[:16] in digests and text not in TRAIN]


def test_documents_that_chose_the_checkpoint_count_as_seen(ground: Ground, tmp_path: Path) -> None:
    """A sample of one token is of the last row."""
    path, tuned = known(ground, tmp_path)
    assert tuned == [VALID[4]]
    assert [document.sha256 for document in holdout_documents(ground.dataset, [path])] == [
        sha256(VALID[number]) for number in (0, 2)
    ]


def test_no_remaining_document_has_a_token_of_the_tuning_sample(ground: Ground, tmp_path: Path) -> None:
    path = tmp_path / "known.parquet"
    for tokens in (None, 4, 9):
        write_known_digests(ground.dataset, tokens, path)
        sample = tuning_sample(StoredSplit(ground.dataset, "valid"), tokens)
        tuned = {tuple(ids) for ids in rows_of_sample(sample)}
        tokenizer = load_tokenizer(ground.dataset.tokenizer_folder)
        for parts in read_texts(ground.corpus_folder, holdout_documents(ground.dataset, [path])):
            for _, text in parts:
                assert not tuned & {(BOS, *tokenizer.encode(line), EOS) for line in text.split("\n") if line}


def rows_of_sample(sample: RowSample) -> list[list[int]]:
    rows = sample.read(0, len(sample))
    return [rows.token_ids[rows.offsets[i] : rows.offsets[i + 1]].tolist() for i in range(len(rows))]


def test_documents_seen_by_either_model_and_repetitions_are_left_out(ground: Ground, tmp_path: Path) -> None:
    own, _ = known(ground, tmp_path)
    left = holdout_documents(ground.dataset, [own, others(tmp_path / "others.parquet", "a bird runs .\n\n", "else")])
    assert [document.sha256 for document in left] == [sha256(VALID[0])]  # digests of bytes still count
    everything = others(tmp_path / "everything.parquet", *VALID)
    assert holdout_documents(ground.dataset, [own, everything]) == []


def test_a_sample_is_random_repeatable_and_in_the_corpus_s_order(ground: Ground, tmp_path: Path) -> None:
    none = [others(tmp_path / "none.parquet")]
    whole = holdout_documents(ground.dataset, none)
    assert holdout_documents(ground.dataset, none, len(whole), 5) == whole
    drawn = [holdout_documents(ground.dataset, none, 2, seed) for seed in range(40)]
    assert drawn[:3] == [holdout_documents(ground.dataset, none, 2, seed) for seed in range(3)]
    assert {(one.document_id, other.document_id) for one, other in drawn} == {
        (one.document_id, other.document_id) for index, one in enumerate(whole) for other in whole[index + 1 :]
    }
    without_one = [others(tmp_path / "one.parquet", VALID[0])]  # what stays is drawn again
    assert set(holdout_documents(ground.dataset, without_one, 3, 1)) >= set(drawn[1]) - {whole[0]}


@pytest.mark.parametrize("kept", [1, 3, 6])
def test_of_many_documents_those_below_a_bound_are_known_and_compared(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    whole, part = tmp_path / "whole.parquet", tmp_path / "part.parquet"
    number = write_known_digests(ground.dataset, 1, whole)
    monkeypatch.setattr(grounds, "KEPT_FINGERPRINTS", kept)
    estimate = write_known_digests(ground.dataset, 1, part)
    bound = bound_of(part)
    share = int(bound, 16) / 2**64
    documents = len(TRAIN) + len(VALID) + 1  # one of the test split
    assert share == pytest.approx(kept / documents)
    assert digests_of(part) == [digest for digest in digests_of(whole) if digest < bound]
    assert estimate == round(len(digests_of(part)) / share)
    assert number == len(digests_of(whole))
    compared = [
        document
        for document in holdout_documents(ground.dataset, [whole])
        if fingerprint(ground, document.byte_offset, document.byte_count) < bound
    ]
    assert holdout_documents(ground.dataset, [part, whole]) == compared
    assert holdout_documents(ground.dataset, [whole, part]) == compared


def fingerprint(ground: Ground, offset: int, count: int) -> str:
    return text_fingerprint((ground.corpus_folder / "valid.txt").read_bytes()[offset : offset + count])


def test_the_bound_of_an_ancestor_holds_for_its_descendants(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    monkeypatch.setattr(grounds, "KEPT_FINGERPRINTS", 5)
    write_known_digests(ground.dataset, 1, paths[0])
    monkeypatch.setattr(grounds, "KEPT_FINGERPRINTS", 1000)
    write_known_digests(ground.dataset, 1, paths[1], ancestors=paths[0])
    assert bound_of(paths[1]) == bound_of(paths[0])
    assert digests_of(paths[1]) == digests_of(paths[0])
    monkeypatch.setattr(grounds, "KEPT_FINGERPRINTS", 2)
    write_known_digests(ground.dataset, 1, paths[2], ancestors=paths[1])
    assert bound_of(paths[2]) < bound_of(paths[1])
    assert digests_of(paths[2]) == [digest for digest in digests_of(paths[1]) if digest < bound_of(paths[2])]


def digests_of(path: Path) -> list[str]:
    digests: list[str] = pq.read_table(path).column("sha256").to_pylist()
    return digests


def test_document_texts_are_the_bytes_of_the_corpus(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = holdout_documents(ground.dataset, [others(tmp_path / "none.parquet")])
    for at_once in (1, 30, 1 << 20):
        monkeypatch.setattr(grounds, "TEXT_BYTES_AT_ONCE", at_once)
        parts = list(read_texts(ground.corpus_folder, documents))
        assert [text for part in parts for _, text in part] == [VALID[number] for number in (0, 1, 2, 4)]
    assert len(parts) == 1


def test_a_missing_or_changed_corpus_is_refused(ground: Ground, tmp_path: Path) -> None:
    documents = holdout_documents(ground.dataset, [others(tmp_path / "none.parquet")])
    text = ground.corpus_folder / "valid.txt"
    text.chmod(0o644)
    text.write_text("".join(VALID).replace("bird", "boar"))
    with pytest.raises(CorpusError, match="have changed since the dataset was made"):
        list(read_texts(ground.corpus_folder, documents))
    text.unlink()
    with pytest.raises(CorpusError, match="cannot be read"):
        list(read_texts(ground.corpus_folder, documents))


def test_few_documents_are_cut_into_blocks_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks have about equal sizes and whole lines, lose nothing, and stay within one document; digests find them."""
    monkeypatch.setattr(grounds, "FEW_DOCUMENTS", 10)
    texts = ["".join(f"line {number} of the {name} text\n" for number in range(40)) for name in ("first", "other")]
    (tmp_path / "valid.txt").write_text("head\n" + "".join(texts))
    offsets = [5, 5 + len(texts[0])]
    documents = [
        HoldoutDocument(7 + number, "valid.txt", offset, len(text), sha256(text))
        for number, (offset, text) in enumerate(zip(offsets, texts, strict=True))
    ]
    blocks = cut_into_blocks(tmp_path, documents)
    assert 8 <= len(blocks) <= 10
    assert [block.document_id for block in blocks] == list(range(len(blocks)))
    [read] = read_texts(tmp_path, blocks)
    assert "".join(text for _, text in read) == "".join(texts)
    assert all(text.endswith("\n") for _, text in read)
    assert not any("first" in text and "other" in text for _, text in read)
    sizes = [block.byte_count for block in blocks]
    assert max(sizes) < 1.5 * min(sizes)


def test_a_line_is_never_cut(tmp_path: Path) -> None:
    text = "a\n" * 3 + "a long line" * 50 + "\n"
    (tmp_path / "valid.txt").write_text(text)
    blocks = cut_into_blocks(tmp_path, [HoldoutDocument(0, "valid.txt", 0, len(text), sha256(text))])
    [read] = read_texts(tmp_path, blocks)
    assert [text for _, text in read][-1].endswith("a long line\n")
    assert len(blocks) <= 4
