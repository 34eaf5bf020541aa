"""One stretch of a corpus becomes a table of word counts."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.splits import Stretch
from rnnlm.records import CorpusRecord
from rnnlm.tokenizers.word_counts import count_stretch
from tasks.count_words import count_words


def test_the_counts_are_those_of_the_stretch(toy_corpus: CorpusRecord, tmp_path: Path) -> None:
    name = toy_corpus.files["train"]
    text = (toy_corpus.folder / name).read_bytes()
    stretch = Stretch(name, 0, len(text))
    counts = pq.read_table(count_words.fn(count_stretch, toy_corpus, TokenizerConfig(kind="word"), stretch, tmp_path))
    found = dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True))
    assert found == Counter(text.decode().split())
