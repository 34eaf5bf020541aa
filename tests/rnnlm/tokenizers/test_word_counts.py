"""The words of each byte range are counted only once, in bounded memory."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rnnlm.config import CorpusConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import corpus_documents
from rnnlm.runtime.engines import Engine, Result, in_this_process
from rnnlm.storage.home import Home
from rnnlm.tokenizers import word_counts
from rnnlm.tokenizers.word_counts import WordCounts, count_corpus


def test_counting_words_forgets_the_rarest_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_counts, "MAXIMUM_DISTINCT", 5)
    found = WordCounts()
    for words in [["often", f"w{index}"] for index in range(100)] + [["late"], ["late"], ["late"]]:
        found.add(words)
    assert len(found.counts) <= 5
    assert found.counts["often"] > 90
    assert found.counts["late"] == 3


@pytest.mark.parametrize("kind", ["word", "char"])
def test_byte_ranges_add_up_to_the_counts_of_the_training_text(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "c.txt").write_text("".join(f"w{index % 7} common\n" for index in range(2_000)))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "c.txt")))
    monkeypatch.setattr(word_counts, "SMALLEST_RANGE_BYTES", 1_000)
    monkeypatch.setattr(word_counts, "COUNTED_BYTES_A_PROCESS", 6_000)
    calls = []

    @contextmanager
    def counted(worth: int) -> Iterator[Engine]:
        with in_this_process(worth) as engine:
            calls.append(worth)
            yield engine

    config = TokenizerConfig(kind=kind)
    train = [line for document in corpus_documents(corpus) if document.split == "train" for line in document.lines]
    words = [word for line in train for word in (line if kind == "char" else line.split())]
    assert count_corpus(corpus, config, tmp_path / "counts", counted) == Counter(words)
    assert calls == [-(-corpus.corpus_bytes // 6_000)] == [4]


def test_after_a_kill_only_the_missing_byte_ranges_are_counted(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.txt").write_text("".join(f"w{index % 7} common\n" for index in range(2_000)))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "c.txt")))
    monkeypatch.setattr(word_counts, "SMALLEST_RANGE_BYTES", 5_000)
    config = TokenizerConfig(kind="word")
    whole = count_corpus(corpus, config, tmp_path / "whole")

    @contextmanager
    def ends_after_three(worth: int) -> Iterator[Engine]:
        with in_this_process(worth) as engine:
            left = iter(range(3))

            def submit(function: Callable[..., Any], *arguments: Any) -> Result:
                if next(left, None) is None:
                    raise KeyboardInterrupt
                return engine.submit(function, *arguments)

            yield Engine(submit, 1)

    counts = tmp_path / "counts"
    with pytest.raises(KeyboardInterrupt):
        count_corpus(corpus, config, counts, ends_after_three)
    first = {path.name: path.stat().st_mtime_ns for path in counts.iterdir()}
    assert len(first) == 3
    assert count_corpus(corpus, config, counts) == whole
    last = {path.name: path.stat().st_mtime_ns for path in counts.iterdir()}
    assert len(last) == 4
    assert first.items() < last.items()
