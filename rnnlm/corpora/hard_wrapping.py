"""Text whose lines were broken at a width, as Project Gutenberg's are: `sentence` mode takes each for a sentence."""

import itertools
from collections.abc import Iterable

from rnnlm.corpora.splits import corpus_files, stored_lines
from rnnlm.records import CorpusRecord

LINES_READ = 5_000  # of a corpus's first file
FEWEST_PAIRS = 50  # fewer lines tell nothing
WIDEST = 120  # characters of a line that was broken at a width
NEARLY_FULL = 0.7  # of that width, which a word that did not fit leaves
FULL_SHARE = 0.8  # of the lines that go on with another
BROKEN_SHARE = 0.3  # of the lines that go on, which end no sentence
SENTENCE_ENDS = ".!?:;\"'”’)"


def is_hard_wrapped(lines: Iterable[str]) -> bool:
    """True if most lines that another one follows are about as long as the longest, and many end amid a sentence.

    Sentences a line differ in length; verses and short entries do, too.
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
    """Judged by the first lines of the corpus's training text."""
    name = corpus.files.get("train") or corpus_files(corpus)[0]
    lines = itertools.islice(stored_lines(corpus.folder / name), LINES_READ)
    return is_hard_wrapped(line.decode("utf-8") for line in lines)
