"""The amount of held-out text on which a candidate can be compared, known before anything is trained.

The registry compares two models on lines that may judge and that neither has seen. This counts them in one text, as if
both models had been trained on it. See docs/explanation/registry.md.
"""

from rnnlm.corpora.line_digests import chooses, line_digests
from rnnlm.corpora.splits import corpus_documents, text_fingerprint
from rnnlm.storage.records import CorpusRecord, Record

FEW_DOCUMENTS = 200  # of fewer, the units of a comparison are at most as many runs of lines
SPREAD = 0.1  # standard deviation of a unit's relative difference between two models (median, benchmarks/decisions.py)
QUANTILE = 1.645  # of a one-sided bound at 95 %


class DecisionGround(Record):
    """The held-out lines on which two models of a text would be compared."""

    documents: int  # with such lines
    lines: int

    @property
    def units(self) -> int:
        """The number of units that the bootstrap would draw: documents, or runs of lines if there are few documents."""
        return self.documents if self.documents >= FEW_DOCUMENTS else min(self.lines, FEW_DOCUMENTS)

    @property
    def detectable(self) -> float:
        """About the smallest relative difference that can be shown: half or twice as much on some texts."""
        return QUANTILE * SPREAD / max(1, self.units) ** 0.5


def decision_ground(corpus: CorpusRecord) -> DecisionGround:
    """Count the different lines of the validation split that may judge, in documents and lines that training lacks.

    Keeps a digest of each training document and line in memory.
    """
    trained_documents: set[str] = set()
    trained_lines: set[int] = set()
    judging: dict[str, list[int]] = {}  # by distinct document: digests of the lines on which nights may decide
    fingerprints: dict[str, str] = {}
    for document in corpus_documents(corpus):
        lines = [line.encode() for line in document.lines]
        if document.split == "train":
            trained_documents.add(text_fingerprint(document.data))
            trained_lines.update(line_digests(lines))
        elif document.split == "valid":
            digests = zip(lines, line_digests(lines), strict=True)
            judging[document.sha256] = [digest for line, digest in digests if line.strip() and not chooses(digest)]
            fingerprints[document.sha256] = text_fingerprint(document.data)
    unseen = [digests for key, digests in judging.items() if digests and fingerprints[key] not in trained_documents]
    new = [[digest for digest in digests if digest not in trained_lines] for digests in unseen]
    if not any(new):  # a text that repeats itself is judged by its documents
        return DecisionGround(documents=len(unseen), lines=sum(map(len, unseen)))
    return DecisionGround(documents=sum(map(bool, new)), lines=len({digest for digests in new for digest in digests}))
