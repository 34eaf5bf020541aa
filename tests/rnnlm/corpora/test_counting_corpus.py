"""The generated corpora `counting` and `zen` have the texts that the catalogue describes."""

import contextlib
import io

from rnnlm.config import CorpusConfig
from rnnlm.corpora import counting_corpus, zen_corpus
from rnnlm.corpora.download import obtain_corpus
from rnnlm.storage.home import Home


def test_every_line_counts_by_one_and_test_lines_are_the_longest(home: Home) -> None:
    corpus = obtain_corpus(home, CorpusConfig(source="counting"))
    assert corpus.files == {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}
    longest = {}
    for split, name in corpus.files.items():
        lines = (corpus.folder / name).read_text().splitlines()
        numbers = [[int(word) for word in line.split()] for line in lines]
        assert len(lines) == counting_corpus.LINES[split][0]
        assert all(line == list(range(line[0], line[0] + len(line))) for line in numbers)
        assert all(line[0] >= 0 and line[-1] <= 999 for line in numbers)
        longest[split] = max(map(len, numbers))
    assert longest == {"train": 12, "valid": 12, "test": 240}


def test_zen_is_what_import_this_prints_in_one_line_three_times(home: Home) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        import this  # noqa: F401

    corpus = obtain_corpus(home, CorpusConfig(source="zen"))
    texts = {(corpus.folder / name).read_text() for name in corpus.files.values()}
    assert len(corpus.files) == 3
    assert texts == {" ".join(zen_corpus.zen().split()) + "\n"}
    if printed.getvalue():  # Nothing is printed if another test has already imported the module.
        assert printed.getvalue() == zen_corpus.zen() + "\n"
