import hashlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig, TokenizerConfig
from rnnlm.corpora.splits import ByteRange
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.word_counts import count_byte_range
from tasks.corpus import count_corpus_words, download_corpus, learn_tokenizer

TRAINING_TEXT = "a cat sees a dog\na dog sees\n"


@pytest.fixture
def given_splits(tmp_path: Path) -> CorpusConfig:
    """Return the configuration of a corpus of three files, one for each split. The training file has two lines."""
    folder = tmp_path / "animals"
    folder.mkdir()
    for split, text in (("train", TRAINING_TEXT), ("valid", "a bird\n"), ("test", "a fox sees\n")):
        (folder / f"{split}.txt").write_text(text)
    return CorpusConfig(source=str(folder))


def test_a_downloaded_text_is_named_by_its_digest(home: Home, tmp_path: Path) -> None:
    """A text is named by the digest of its content, without the byte-order mark and carriage returns."""
    (tmp_path / "notes.txt").write_bytes(b"\xef\xbb\xbfone line\r\nna\xc3\xafve\r\n")
    config = CorpusConfig(source=str(tmp_path / "notes.txt"))
    expected = "one line\nnaïve\n".encode()

    corpus = download_corpus.fn(config)

    assert corpus.digest == hashlib.sha256(expected).hexdigest()
    assert corpus.folder == home.corpora / corpus.digest[:16]
    assert (corpus.folder / corpus.files["text"]).read_bytes() == expected
    assert (corpus.name, corpus.corpus_bytes, corpus.skipped) == ("notes", 16, False)
    again = download_corpus.fn(config)
    assert (again.digest, again.skipped) == (corpus.digest, True)
    assert not download_corpus.fn(config, force=True).skipped


@pytest.mark.usefixtures("home")
def test_words_of_one_byte_range_are_counted(given_splits: CorpusConfig, tmp_path: Path) -> None:
    corpus = download_corpus.fn(given_splits)
    whole = ByteRange("train.txt", 0, len(TRAINING_TEXT))
    path = count_corpus_words.fn(count_byte_range, corpus, TokenizerConfig(kind="word"), whole, tmp_path)
    counts = {row["word"]: row["count"] for row in pq.read_table(path).to_pylist()}
    assert counts == {"a": 3, "cat": 1, "sees": 2, "dog": 2}


def test_a_word_vocabulary_has_the_training_words_alone(home: Home, given_splits: CorpusConfig) -> None:
    corpus: CorpusRecord = download_corpus.fn(given_splits)
    config = TokenizerConfig(kind="word", vocabulary_size=100)

    tokenizer = learn_tokenizer.fn(corpus, config)

    # The vocabulary has the four words of the training file, and <pad>, <unk>, <bos> and <eos>.
    assert (tokenizer.kind, tokenizer.vocabulary_size) == ("word", 4 + 4)
    assert tokenizer.folder.parent == home.tokenizers
    loaded = load_tokenizer(tokenizer.folder)
    # "fox" and "bird" occur only in the held-out files.
    assert loaded.unknown_words("a fox sees a bird") == ["fox", "bird"]
    assert learn_tokenizer.fn(corpus, config).skipped
