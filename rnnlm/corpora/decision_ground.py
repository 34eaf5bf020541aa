"""The number of held-out lines on which a candidate can be compared with the champion, known before any training.

The registry compares two models on validation lines that are reserved for this comparison and that neither model has
seen. This module counts these lines in one text, as if both models had been trained on it. See
docs/explanation/registry.md.
"""

from rnnlm.corpora.line_digests import chooses, line_digests
from rnnlm.corpora.splits import corpus_documents, text_fingerprint
from rnnlm.storage.records import CorpusRecord, Record

# The number of documents with held-out lines from which the bootstrap draws documents. With fewer documents, it draws
# runs of lines, at most this many.
FEW_DOCUMENTS = 200
# The standard deviation of the relative difference in loss between two models, over sampled documents or lines. It is
# the median that benchmarks/decisions.py measured.
SPREAD = 0.1
QUANTILE = 1.645  # The quantile of a one-sided bound at 95 %.


class DecisionGround(Record):
    """The held-out lines on which two models of a text would be compared."""

    documents: int  # The number of documents that contain held-out lines.
    lines: int

    @property
    def units(self) -> int:
        """The number of units from which the bootstrap would draw.

        Units are documents, or runs of lines if there are few documents.
        """
        return self.documents if self.documents >= FEW_DOCUMENTS else min(self.lines, FEW_DOCUMENTS)

    @property
    def detectable(self) -> float:
        """The approximate smallest relative difference between two models that can be detected on these lines.

        On some texts, the true value is half or twice as large.
        """
        return QUANTILE * SPREAD / max(1, self.units) ** 0.5


def decision_ground(corpus: CorpusRecord) -> DecisionGround:
    """Count the distinct validation lines on which models would be compared, and the documents that contain them.

    Lines and documents that occur in the training text are not counted. A digest of each training document and line is
    in memory at the same time.
    """
    trained_documents: set[str] = set()
    trained_lines: set[int] = set()
    # The digests of the lines that are reserved for comparing models, for each distinct document.
    compared: dict[str, list[int]] = {}
    fingerprints: dict[str, str] = {}
    for document in corpus_documents(corpus):
        lines = [line.encode() for line in document.lines]
        if document.split == "train":
            trained_documents.add(text_fingerprint(document.data))
            trained_lines.update(line_digests(lines))
        elif document.split == "valid":
            digests = zip(lines, line_digests(lines), strict=True)
            compared[document.sha256] = [digest for line, digest in digests if line.strip() and not chooses(digest)]
            fingerprints[document.sha256] = text_fingerprint(document.data)
    unseen = [digests for key, digests in compared.items() if digests and fingerprints[key] not in trained_documents]
    new = [[digest for digest in digests if digest not in trained_lines] for digests in unseen]
    if not any(new):  # Whole documents are compared if all lines also occur in the training text.
        return DecisionGround(documents=len(unseen), lines=sum(map(len, unseen)))
    return DecisionGround(documents=sum(map(bool, new)), lines=len({digest for digests in new for digest in digests}))
