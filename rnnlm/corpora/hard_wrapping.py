"""Detection of text that is wrapped at a fixed width, such as the texts of Project Gutenberg.

In sentence mode, each line is a sentence, so the lines of such a text would be read as sentences.
"""

import itertools
from collections.abc import Iterable

from rnnlm.corpora.splits import corpus_files, stored_lines
from rnnlm.storage.records import CorpusRecord

LINES_READ = 5_000  # The number of lines of the training text that are read.
FEWEST_PAIRS = 50  # The smallest number of pairs of neighbouring lines from which a width can be recognised.
WIDEST = 120  # The largest width of a wrapped line in characters.
# The smallest fraction of the width that a wrapped line fills. The rest may be empty if a long word did not fit.
NEARLY_FULL = 0.7
FULL_SHARE = 0.8  # In a wrapped text, the smallest fraction of nearly full lines among lines that another line follows.
# In a wrapped text, the smallest fraction of lines that do not end a sentence among lines that another line follows.
BROKEN_SHARE = 0.3
SENTENCE_ENDS = ".!?:;\"'”’)"


def is_hard_wrapped(lines: Iterable[str]) -> bool:
    """Return True if most lines are about as long as the longest line and many of them end within a sentence.

    The last line of a paragraph is ignored. Lines that are sentences, verses or short entries differ in length.
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
