"""Compare registered models on one text by bits per byte, with a confidence interval for each pair of models.

Bits per byte can be compared between models with different tokenizers.
"""

from pathlib import Path

import numpy as np

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import DatasetError
from rnnlm.evaluation.external_corpus import open_corpus
from rnnlm.evaluation.perplexity import SummedLosses, split_score
from rnnlm.evaluation.token_losses import joined_nll, nll_of_split
from rnnlm.extensions.comparison.document_bootstrap import PairDifference, pair_differences, read_documents
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.home import Home
from rnnlm.storage.records import Record
from rnnlm.storage.result_records import SplitScore


class RegisteredComparison(Record):
    split: str  # The name of the scored split, or `all` for the whole text.
    documents: int
    scores: dict[str, SplitScore]  # The score of each model, in order from the best to the worst.
    pairs: tuple[PairDifference, ...]
    # Warnings that the scores are misleading because text was copied between splits.
    score_warnings: tuple[str, ...] = ()


def compare_on_text(home: Home, folders: dict[str, Path], config: CorpusConfig) -> RegisteredComparison:
    """Compare registered models on a text. `folders` has each model's folder by its name.

    The test split is scored if one of the models was trained on this corpus or if the corpus comes with splits.
    Otherwise the whole text is scored.
    """
    digest = obtain_corpus(home, config).digest
    is_own = any(read_training_provenance(folder).corpus_digest == digest for folder in folders.values())
    scores: dict[str, SplitScore] = {}
    nats: dict[str, np.ndarray] = {}
    byte_counts: np.ndarray | None = None
    warnings: list[str] = []
    for name, folder in folders.items():
        opened = open_corpus(home, folder, config, "test" if is_own else None)
        documents = read_documents(opened.dataset, opened.split)
        if byte_counts is not None and not np.array_equal(byte_counts, documents.byte_counts):
            raise DatasetError(
                f"{name}: this model divides {config.public_source} into other documents than the first model;\n"
                "compare it separately"
            )
        byte_counts = documents.byte_counts
        warnings += opened.score_warnings
        source = StoredSplit(opened.dataset, opened.split)
        nll = joined_nll(nll_of_split(opened.model, source, opened.dataset.mode))
        nats[name] = documents.total_nats(nll)
        sums = SummedLosses(float(nll.sum(dtype=np.float64)))
        scores[name] = opened.reported(split_score(opened.dataset, opened.split, sums))
    assert byte_counts is not None
    ranked = sorted(scores, key=lambda name: scores[name].bits_per_byte)
    return RegisteredComparison(
        split=scores[ranked[0]].split,
        documents=len(byte_counts),
        scores={name: scores[name] for name in ranked},
        pairs=pair_differences({name: nats[name] for name in ranked}, byte_counts),
        score_warnings=tuple(dict.fromkeys(warnings)),
    )
