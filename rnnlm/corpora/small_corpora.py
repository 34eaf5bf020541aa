"""Fill every split of a small text: enlarge shares that leave a split too small, and cut very few lines by line."""

from collections import defaultdict
from itertools import accumulate

from rnnlm.corpora.splits import corpus_documents, stored_lines
from rnnlm.storage.records import SPLITS, CorpusRecord, Split

SMALL_TEXT_BYTES = 2 << 20  # a larger text has at least 256 documents, of which 5 % are hardly ever none
FEWEST_DOCUMENTS = 12  # different ones; a text with fewer is cut by line
VALIDATION_LINES = 60  # half of them choose between models, half judge: see line_digests.py
LARGEST_SHARE = 0.2  # of the lines, to reach VALIDATION_LINES


def fill_splits(corpus: CorpusRecord) -> CorpusRecord:
    """Give larger shares to a small corpus of which a carved split would be empty or have too few lines.

    One of few documents is cut by line. A corpus of fewer different documents than splits is returned unchanged: see
    explain_empty_split. While a text grows its shares fall, so what is held out tonight was hardly ever trained on.
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
    """Return the number of lines with text for each different document (or source) that splits are carved from.

    The keys are the fractions of 1 that decide a split, in ascending order; see splits.carve.
    """
    found: defaultdict[float, int] = defaultdict(int)
    for document in corpus_documents(corpus):
        if document.data.strip() and document.source_file in (corpus.files.get("text"), corpus.files.get("train")):
            found[int(document.split_key, 16) / 2**64] += sum(bool(line.strip()) for line in document.lines)
    return dict(sorted(found.items()))


def enlarged_shares(line_counts: dict[float, int], shares: dict[Split, float]) -> dict[Split, float]:
    """Return the shares of the carved splits, enlarged where needed: no split is empty, train included.

    The validation split has VALIDATION_LINES lines, or LARGEST_SHARE of all if these are fewer.
    line_counts: of lines_by_key(), more of them than shares.
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
        later = len(carved) - position  # documents for the other splits and for train
        if enough <= usual <= len(fractions) - taken - later:
            end = border + shares[split]
            taken += usual
        else:
            taken += min(max(enough, usual), len(fractions) - taken - later)
            end = (fractions[taken - 1] + fractions[taken]) / 2
        enlarged[split], border = end - border, end
    return enlarged


def explain_empty_split(corpus: CorpusRecord, split: Split) -> str:
    """Return why a split has no token to predict, and what to do."""
    carved = {name for name, share in corpus.carved_shares.items() if share}
    missing = f"the {split} split has no token to predict; put text into {split}.txt"
    if split in corpus.files and not (split == "train" and carved):
        return missing
    needed = 1 + len(carved)
    lines, different = count_lines(corpus, needed)
    if different >= needed or split not in ("train", *carved):
        return f"{missing},\nor raise corpus.{'valid' if split == 'train' else split}_share if one text is split"
    there = "1 document" if different == 1 else f"{different} different documents"
    repeated = f", repeated in {lines:,} lines" if lines > different else ""
    return (
        f"this text is {there}{repeated}; at least {needed} different ones are needed for {needed} splits;\n"
        "write each sentence on a line of its own, add text, or give a folder with train.txt, valid.txt and test.txt"
    )


def count_lines(corpus: CorpusRecord, at_most: int) -> tuple[int, int]:
    """Count the lines to carve splits from, without blank ones, and the different ones, up to at_most."""
    seen: set[bytes] = set()
    lines = 0
    for line in stored_lines(corpus.folder / (corpus.files.get("text") or corpus.files["train"])):
        lines += bool(line.strip())
        if len(seen) < at_most and line.strip():
            seen.add(line)
    return lines, len(seen)
