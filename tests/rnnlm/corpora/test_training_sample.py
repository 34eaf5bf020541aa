"""A sample by corpus.maximum_documents does not depend on the order of documents.

A larger sample contains every smaller one. Held-out text is never sampled.
"""

import random
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import corpus_documents
from rnnlm.errors import CorpusError
from rnnlm.extensions.upkeep.inventory import notes_by_corpus
from rnnlm.sequences import corpus_shards
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

PARAGRAPHS = [f"paragraph number{index}\nits second line\n\n" for index in range(300)]


def sampled(home: Home, path: Path, maximum: int | None, paragraphs: list[str] = PARAGRAPHS) -> CorpusRecord:
    path.write_text("".join(paragraphs))
    return obtain_corpus(home, CorpusConfig(source=str(path), maximum_documents=maximum))


def texts(corpus: CorpusRecord) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {"train": set(), "valid": set(), "test": set()}
    for document in corpus_documents(corpus):
        found[document.split].add(document.data)
    return found


def store(home: Home, corpus: CorpusRecord, **settings: object) -> DatasetRecord:
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    return store_sequences(home, corpus, tokenizer, SequencesConfig.model_validate(settings))


def test_only_training_documents_are_left_out(home: Home, tmp_path: Path) -> None:
    whole = texts(sampled(home, tmp_path / "text.txt", None))
    part = texts(sampled(home, tmp_path / "text.txt", 40))
    assert (part["valid"], part["test"]) == (whole["valid"], whole["test"])
    assert part["valid"]
    assert part["test"]
    assert part["train"] < whole["train"]
    assert len(part["train"]) == 40


def test_the_sample_does_not_depend_on_the_order(home: Home, tmp_path: Path) -> None:
    shuffled = random.Random(0).sample(PARAGRAPHS, len(PARAGRAPHS))
    ordered = sampled(home, tmp_path / "ordered.txt", 40)
    assert texts(sampled(home, tmp_path / "shuffled.txt", 40, shuffled)) == texts(ordered)


def test_a_larger_sample_contains_a_smaller_one(home: Home, tmp_path: Path) -> None:
    samples = [texts(sampled(home, tmp_path / "text.txt", maximum))["train"] for maximum in (10, 40, 160)]
    assert samples[0] < samples[1] < samples[2]


def test_equal_documents_are_in_it_together_or_not_at_all(home: Home, tmp_path: Path) -> None:
    corpus = sampled(home, tmp_path / "text.txt", 50, [paragraph for paragraph in PARAGRAPHS for _ in range(3)])
    counts = [document.data for document in corpus_documents(corpus) if document.split == "train"]
    assert 48 <= len(counts) <= 50
    assert {counts.count(text) for text in counts} == {3}


def test_a_sample_of_equal_documents_says_what_to_do(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for split, text in (("train", "the same\n\n" * 20), ("valid", "v\n"), ("test", "t\n")):
        (folder / f"{split}.txt").write_text(text)
    with pytest.raises(CorpusError, match="maximum_documents=5: no sample") as caught:
        obtain_corpus(home, CorpusConfig(source=str(folder), maximum_documents=5))
    assert "raise the setting" in str(caught.value)


def test_it_is_found_once_and_pruned_with_its_corpus(home: Home, tmp_path: Path) -> None:
    corpus = sampled(home, tmp_path / "text.txt", 40)
    (note,) = (home.corpora / "known").glob("sample-*.json")
    before = note.stat().st_mtime_ns
    assert sampled(home, tmp_path / "text.txt", 40).sample == corpus.sample
    assert note.stat().st_mtime_ns == before
    assert ("note", note.name) in notes_by_corpus(home)[corpus.digest[:16]]
    note.write_text("damage")
    assert sampled(home, tmp_path / "text.txt", 40).sample == corpus.sample


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_a_dataset_of_a_sample_holds_the_sample(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    # The shards are so small that some contain no sampled document.
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 60)
    whole = store(home, sampled(home, tmp_path / "text.txt", None), mode=mode)
    corpus = sampled(home, tmp_path / "text.txt", 40)
    part = store(home, corpus, mode=mode)
    assert part.dataset_id != whole.dataset_id
    assert part.predicted_tokens["valid"] == whole.predicted_tokens["valid"]
    # Each document has two lines, and a blank line that is a token only in stream mode.
    assert part.predicted_tokens["train"] == 40 * (3 + 4 + (mode == "stream"))
    with connect(part) as connection:
        digests = connection.execute("select sha256 from documents where split = 'train'").fetchall()
    assert {digest for (digest,) in digests} == {
        document.sha256 for document in corpus_documents(corpus) if document.split == "train"
    }
    assert check_dataset(part)
