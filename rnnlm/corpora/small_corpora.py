"""Fill every split of a small text: cut it by line, and enlarge shares that leave a split empty."""

from rnnlm.corpora.splits import corpus_documents, stored_lines
from rnnlm.storage.records import SPLITS, CorpusRecord, Split

SMALL_TEXT_BYTES = 2 << 20  # a larger text has at least 256 documents, of which 5 % are hardly ever none


def fill_splits(corpus: CorpusRecord) -> CorpusRecord:
    """The corpus, cut by line and then with larger shares if it is small and a carved split would be empty.

    A corpus of fewer different documents than splits is returned unchanged: see explain_empty_split.
    """
    wanted = {split for split, share in corpus.carved_shares.items() if share}
    if not wanted or corpus.corpus_bytes > SMALL_TEXT_BYTES:
        return corpus
    by_line = corpus.model_copy(update={"document_lines": 1})
    for cut in (corpus, by_line):
        if {"train", *wanted} <= {document.split for document in corpus_documents(cut) if document.data.strip()}:
            return cut
    keys = {
        document.split_key
        for document in corpus_documents(by_line)
        if document.data.strip() and document.source_file in (corpus.files.get("text"), corpus.files.get("train"))
    }
    if len(keys) <= len(wanted):
        return corpus
    shares = corpus.carved_shares | enlarged_shares(sorted(int(key, 16) / 2**64 for key in keys), corpus.carved_shares)
    valid, test = (shares.get(split, share) for split, share in zip(SPLITS[1:], corpus.shares, strict=True))
    return by_line.model_copy(update={"shares": (valid, test)})


def enlarged_shares(fractions: list[float], shares: dict[Split, float]) -> dict[Split, float]:
    """The shares, none of them 0, of splits that leave none empty, train included.

    fractions: of the documents' digests, sorted, more than there are shares; see splits.carve.
    """
    enlarged: dict[Split, float] = {}
    order: tuple[Split, ...] = ("test", "valid")
    carved = [split for split in order if shares.get(split)]
    taken, border = 0, 0.0
    for position, split in enumerate(carved):
        usual = sum(border <= fraction < border + shares[split] for fraction in fractions)
        later = len(carved) - position  # documents for the other splits and for train
        taken += min(max(1, usual), len(fractions) - taken - later)
        end = (fractions[taken - 1] + fractions[taken]) / 2
        enlarged[split], border = end - border, end
    return enlarged


def explain_empty_split(corpus: CorpusRecord, split: Split) -> str:
    """Why a split has no token to predict, and what to do."""
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
    """The numbers of lines to carve splits from, without blank ones, and of different ones, counted up to at_most."""
    seen: set[bytes] = set()
    lines = 0
    for line in stored_lines(corpus.folder / (corpus.files.get("text") or corpus.files["train"])):
        lines += bool(line.strip())
        if len(seen) < at_most and line.strip():
            seen.add(line)
    return lines, len(seen)
