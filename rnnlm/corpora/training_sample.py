"""A reproducible sample of the training documents, which consists of those with the smallest digests.

The setting corpus.maximum_documents limits its size. The sample does not depend on the order of the documents, and a
larger sample contains a smaller one. When the corpus grows, a document leaves the sample only for a new document with a
smaller digest. The validation and test splits are not sampled.
"""

import heapq

from rnnlm.corpora.splits import corpus_documents
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import CorpusRecord, TrainingSample
from rnnlm.storage.stages import stage_key

# The number of hexadecimal digits of a digest that are stored. These 8 bytes distinguish tens of millions of documents.
KEY_DIGITS = 16


def sample_training(home: Home, corpus: CorpusRecord, maximum_documents: int | None) -> CorpusRecord:
    """Sample at most maximum_documents training documents. Return a smaller corpus unchanged.

    The sample is found by reading the text once, and is stored in home.corpora/known. If maximum_documents is None, the
    corpus is not sampled. Raise CorpusError if the sample would be empty.
    """
    if maximum_documents is None:
        return corpus
    key = stage_key("corpus", digest=corpus.digest, splits=corpus.split_rule, maximum_documents=maximum_documents)
    path = home.corpora / "known" / f"sample-{key[:16]}.json"
    with home.lock(f"corpus-sample-{key[:16]}"):
        note = read_json(path)
        if not (note and note["key"] == key):
            found = find_sample(corpus, maximum_documents)
            sample = None if found is None else found.model_dump()
            # `rnnlm prune` finds this note by the digest of the corpus.
            note = {"key": key, "digest": corpus.digest, "sample": sample}
            home.make(path.parent)
            write_json(path, note)
    if note["sample"] is None:
        return corpus
    return corpus.model_copy(update={"sample": TrainingSample(**note["sample"])})


def find_sample(corpus: CorpusRecord, maximum_documents: int) -> TrainingSample | None:
    """Draw a sample, or return None if the corpus has at most `maximum_documents` training documents.

    Only the digests of the sample are in memory. Of several equal documents, either all or none are in the sample.
    Hence the sample may be a little smaller than the maximum.
    """
    documents = (document for document in corpus_documents(corpus) if document.split == "train")
    keys = ((int(document.sha256[:KEY_DIGITS], 16), len(document.data)) for document in documents)
    smallest = heapq.nsmallest(maximum_documents + 1, keys)
    if len(smallest) <= maximum_documents:
        return None
    below = smallest[-1][0]
    byte_count = sum(size for key, size in smallest if key < below)
    if not byte_count:
        raise CorpusError(
            f"corpus.maximum_documents={maximum_documents}: no sample can be drawn from {corpus.source}, because\n"
            f"it has more than {maximum_documents} equal training documents; raise the setting"
        )
    return TrainingSample(below=f"{below:0{KEY_DIGITS}x}", byte_count=byte_count)
