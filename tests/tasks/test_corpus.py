from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig, PipelineConfig, TokenizerConfig
from rnnlm.corpora import http_download
from rnnlm.corpora.http_request import FetchPolicy
from rnnlm.corpora.splits import ByteRange
from rnnlm.errors import FetchError
from rnnlm.home import Home
from rnnlm.storage.records import CorpusRecord
from rnnlm.tokenizers.word_counts import count_byte_range
from tasks.corpus import count_corpus_words, download_corpus, learn_tokenizer


def test_the_corpus_lies_in_the_home(home: Home, toy_config: PipelineConfig) -> None:
    corpus = download_corpus.fn(toy_config.corpus)
    assert corpus.folder.parent == home.corpora
    assert set(corpus.files) == {"train", "valid", "test"}
    assert download_corpus.fn(toy_config.corpus).skipped
    assert not download_corpus.fn(toy_config.corpus, force=True).skipped


def test_a_failed_download_is_told_apart(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_download, "POLICY", FetchPolicy(attempts=1))
    with pytest.raises(FetchError):
        download_corpus.fn(CorpusConfig(source="http://127.0.0.1:9/text"))


def test_the_counts_are_those_of_the_byte_range(toy_corpus: CorpusRecord, tmp_path: Path) -> None:
    name = toy_corpus.files["train"]
    text = (toy_corpus.folder / name).read_bytes()
    byte_range = ByteRange(name, 0, len(text))
    counts = pq.read_table(
        count_corpus_words.fn(count_byte_range, toy_corpus, TokenizerConfig(kind="word"), byte_range, tmp_path)
    )
    found = dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))
    assert found == Counter(text.decode().split())


def test_the_tokenizer_lies_in_the_home(home: Home, toy_config: PipelineConfig, toy_corpus: CorpusRecord) -> None:
    bpe = toy_config.tokenizer.model_copy(update={"kind": "bpe", "vocabulary_size": 300})
    tokenizer = learn_tokenizer.fn(toy_corpus, bpe)
    assert (tokenizer.kind, tokenizer.skipped, tokenizer.folder.parent) == ("bpe", False, home.tokenizers)
    assert 260 < tokenizer.vocabulary_size <= 300
    assert learn_tokenizer.fn(toy_corpus, bpe).skipped
