"""Detect text wrapped at a fixed width, such as Project Gutenberg's: in sentence mode each line is a sentence."""

import itertools
from collections.abc import Iterable

from rnnlm.corpora.splits import corpus_files, stored_lines
from rnnlm.storage.records import CorpusRecord

LINES_READ = 5_000  # of the training text
FEWEST_PAIRS = 50  # fewer lines do not show a width
WIDEST = 120  # characters of a wrapped line
NEARLY_FULL = 0.7  # of the width: a long word was moved to the next line
FULL_SHARE = 0.8  # of the lines that are followed by another
BROKEN_SHARE = 0.3  # of those lines, that do not end a sentence
SENTENCE_ENDS = ".!?:;\"'”’)"


def is_hard_wrapped(lines: Iterable[str]) -> bool:
    """Return True if most lines are about as long as the longest, and many end inside a sentence.

    The last lines of paragraphs do not count.

    Lines that are sentences, verses or short entries differ in length.
    """
    stripped = [line.strip() for line in lines]
    pairs = [line for line, following in itertools.pairwise(stripped) if line and following]
    if len(pairs) < FEWEST_PAIRS:
        return False
    lengths = sorted(map(len, pairs))
    width = lengths[len(lengths) * 95 // 100]
    full = sum(length >= NEARLY_FULL * width for length in lengths)
    broken = sum(not line.endswith(tuple(SENTENCE_ENDS)) for line in pairs)
    return width <= WIDEST and full >= FULL_SHARE * len(pairs) and broken >= BROKEN_SHARE * len(pairs)


def looks_hard_wrapped(corpus: CorpusRecord) -> bool:
    """Return True if the first lines of the training text are hard-wrapped."""
    name = corpus.files.get("train") or corpus_files(corpus)[0]
    lines = itertools.islice(stored_lines(corpus.folder / name), LINES_READ)
    return is_hard_wrapped(line.decode("utf-8") for line in lines)
