"""Evaluation of a model on a corpus that the caller chooses."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.perplexity import score_split
from rnnlm.evaluation.token_probabilities import write_probabilities
from rnnlm.evaluation.training_overlap import (
    MOSTLY_COPIES,
    NOTICEABLE_SHARE,
    line_keys,
    repeated_sentence,
    repeated_share,
    seen_share,
)
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home, file_digest
from rnnlm.storage.records import SPLITS, DatasetRecord, Record, Split, TokenizerRecord
from rnnlm.storage.result_records import SplitScore
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

logger = logging.getLogger(__name__)
Reported = TypeVar("Reported", bound=Record)


@dataclass(frozen=True)
class CorpusForModel:
    """A model, and a corpus that is tokenized and split into rows in the same way as the model's training text."""

    model: LanguageModel
    dataset: DatasetRecord
    split: Split  # The split of the corpus that is scored.
    reported_as: str  # The name of the split in reports, or `all` for the whole text.
    # The fraction of the split's bytes in lines that occur in the model's training text; see
    # training_overlap.seen_share.
    seen_share: float | None
    counted: bool  # True if the n-gram model inside the model was trained on this split.
    # Warnings that the scores are misleading, because the split is copied from the training text or repeats itself.
    score_warnings: tuple[str, ...]

    def reported(self, scored: Reported) -> Reported:
        """Return the record with `reported_as` as its split, and with its seen_share set."""
        return scored.model_copy(update={"split": self.reported_as, "seen_share": self.seen_share})


def score_corpus(
    home: Home, folder: Path, config: CorpusConfig, split: Split | None = None, probabilities: Path | None = None
) -> SplitScore:
    """Return the score of the model in `folder` on a corpus.

    `probabilities` is a file to which the probabilities of all tokens are written. If no split is given, the `test`
    split is scored if the corpus has splits or the model was trained on this corpus. Otherwise, the whole text is
    scored and reported as `all`. The unigram baseline uses the training split of this corpus, or the whole text.
    """
    opened = open_corpus(home, folder, config, split)
    if probabilities is not None:
        write_probabilities(probabilities, opened.model, opened.dataset, opened.split)
    return opened.reported(score_split(opened.model, opened.dataset, opened.split, counted=opened.counted))


def open_corpus(
    home: Home, folder: Path, config: CorpusConfig, split: Split | None, *, needs_all_splits: bool = False
) -> CorpusForModel:
    """Return the corpus, tokenized for the model, and the split to score.

    If `split` is None, the split is chosen as in score_corpus().
    """
    origin = read_training_provenance(folder)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    corpus = obtain_corpus(home, config)
    whole = split is None and "text" in corpus.files and corpus.digest != origin.corpus_digest
    scored: Split = split or "test"
    required = SPLITS if needs_all_splits else (scored,)
    if whole:  # The `train` split contains the whole text if nothing is held out.
        corpus = corpus.model_copy(update={"shares": (0.0, 0.0), "document_lines": None, "sample": None})
        scored, required = "train", ("train",)
    record = TokenizerRecord(
        digest=file_digest(folder / "tokenizer.json"),
        folder=folder,
        kind=tokenizer.kind,
        vocabulary_size=tokenizer.vocabulary_size,
    )
    dataset = store_sequences(home, corpus, record, origin.cut, required_splits=required)
    seen = seen_share(home, origin, dataset, scored)
    warnings = []
    if seen is None:
        logger.warning(
            "the model's training text is not in this rnnlm home, so it is unknown whether the "
            "model was trained on parts of this text"
        )
    elif seen > NOTICEABLE_SHARE:
        warnings.append(
            f"{seen:.0%} of this text is also in the model's training text: these are not figures of unseen text"
        )
    if (repeated := repeated_share(*line_keys(home, dataset, scored))) > MOSTLY_COPIES:
        sentence = repeated_sentence("text").format(share=f"{repeated:.0%}")
        warnings.append(f"{sentence}: a few passages decide the figures; remove the copies")
    for warning in warnings:
        logger.warning("%s", warning)
    counted = scored == "train" and not whole and corpus.digest == origin.corpus_digest
    return CorpusForModel(model, dataset, scored, "all" if whole else scored, seen, counted, tuple(warnings))
