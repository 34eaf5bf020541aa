"""Splits of small texts.

Fractions that would leave a split too small are enlarged, and a text of very few documents is split by line.
"""

from collections import defaultdict
from itertools import accumulate

from rnnlm.corpora.splits import corpus_documents, stored_lines
from rnnlm.storage.records import SPLITS, CorpusRecord, Split

# The size above which a text has at least 256 documents, so that a split of 5 % is hardly ever empty.
SMALL_TEXT_BYTES = 2 << 20
# The number of distinct documents below which a text is split by line and not by document.
FEWEST_DOCUMENTS = 12
# The number of validation lines of a small text. Half of them are used for model selection, half for comparing models;
# see line_digests.py.
VALIDATION_LINES = 60
# The largest fraction of the lines that the validation split gets in order to have VALIDATION_LINES lines.
LARGEST_SHARE = 0.2


def fill_splits(corpus: CorpusRecord) -> CorpusRecord:
    """Enlarge the fractions of a small corpus's splits if a split would be empty or would have too few lines.

    A corpus of few documents is split by line. A corpus with fewer distinct documents than splits is returned
    unchanged; see explain_empty_split. The enlarged fractions decrease while a text grows. Hence a document that is
    held out in one nightly run was hardly ever used for training in an earlier one.
    """
    wanted = {split for split, share in corpus.carved_shares.items() if share}
    if not wanted or corpus.corpus_bytes > SMALL_TEXT_BYTES:
        return corpus
    line_counts = lines_by_key(corpus)
    if len(line_counts) < FEWEST_DOCUMENTS:
        by_line = corpus.model_copy(update={"document_lines": 1})
        line_counts = lines_by_key(by_line)
        if len(line_counts) <= len(wanted):
            return corpus
        corpus = by_line
    shares = corpus.carved_shares | enlarged_shares(line_counts, corpus.carved_shares)
    valid, test = (shares.get(split, share) for split, share in zip(SPLITS[1:], corpus.shares, strict=True))
    return corpus.model_copy(update={"shares": (valid, test)})


def lines_by_key(corpus: CorpusRecord) -> dict[float, int]:
    """Return the number of non-blank lines of each distinct document or source, by which the text is split.

    The keys are the fractions of 1 that determine the split, in ascending order; see splits.carve.
    """
    found: defaultdict[float, int] = defaultdict(int)
    for document in corpus_documents(corpus):
        if document.data.strip() and document.source_file in (corpus.files.get("text"), corpus.files.get("train")):
            found[int(document.split_key, 16) / 2**64] += sum(bool(line.strip()) for line in document.lines)
    return dict(sorted(found.items()))


def enlarged_shares(line_counts: dict[float, int], shares: dict[Split, float]) -> dict[Split, float]:
    """Return the fractions of the splits, enlarged as far as needed for every split, even train, to have text.

    The validation split gets VALIDATION_LINES lines, or LARGEST_SHARE of all lines if that is fewer. `line_counts` is
    the result of lines_by_key(), and must have more entries than `shares`.
    """
    fractions, counts = list(line_counts), list(line_counts.values())
    wanted_lines = {"test": 1, "valid": 1}
    if shares.get("valid", 0.0) < LARGEST_SHARE:
        wanted_lines["valid"] = max(1, min(VALIDATION_LINES, int(LARGEST_SHARE * sum(counts))))
    enlarged: dict[Split, float] = {}
    order: tuple[Split, ...] = ("test", "valid")
    carved = [split for split in order if shares.get(split)]
    taken, border = 0, 0.0
    for position, split in enumerate(carved):
        usual = sum(border <= fraction < border + shares[split] for fraction in fractions)
        enough = 1 + sum(lines < wanted_lines[split] for lines in accumulate(counts[taken:]))
        # The number of documents that must be left for train and for the following splits.
        later = len(carved) - position
        if enough <= usual <= len(fractions) - taken - later:
            end = border + shares[split]
            taken += usual
        else:
            taken += min(max(enough, usual), len(fractions) - taken - later)
            end = (fractions[taken - 1] + fractions[taken]) / 2
        enlarged[split], border = end - border, end
    return enlarged


def explain_empty_split(corpus: CorpusRecord, split: Split) -> str:
    """Return a message that explains why a split has no token to predict, and how to obtain one."""
    carved = {name for name, share in corpus.carved_shares.items() if share}
    missing = f"the {split} split has no token to predict; put text into {split}.txt"
    if split in corpus.files and not (split == "train" and carved):
        return missing
    needed = 1 + len(carved)
    lines, different = count_lines(corpus, needed)
    if different >= needed or split not in ("train", *carved):
        share = f"corpus.{'valid' if split == 'train' else split}_share"
        return f"{missing},\nor raise {share} if all splits are taken from one text"
    there = "1 document" if different == 1 else f"{different} different documents"
    repeated = f", repeated in {lines:,} lines" if lines > different else ""
    return (
        f"this text has only {there}{repeated}; at least {needed} different ones are needed for {needed} splits;\n"
        "write each sentence on a separate line, add text, or give a folder with train.txt, valid.txt and test.txt"
    )


def count_lines(corpus: CorpusRecord, at_most: int) -> tuple[int, int]:
    """Return the number of lines that are not blank, and of distinct ones. Each number is at most `at_most`."""
    seen: set[bytes] = set()
    lines = 0
    for line in stored_lines(corpus.folder / (corpus.files.get("text") or corpus.files["train"])):
        lines += bool(line.strip())
        if len(seen) < at_most and line.strip():
            seen.add(line)
    return lines, len(seen)
