"""A model measured on text of the caller's choice."""

import logging
from dataclasses import dataclass
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import ConfigError
from rnnlm.evaluation.perplexity import score_split
from rnnlm.evaluation.test_time_adaptation.adaptation_table import Comparison, OnTop, compare
from rnnlm.evaluation.training_overlap import seen_share
from rnnlm.home import Home, file_digest
from rnnlm.models.hugging_face import ElmanForCausalLM
from rnnlm.models.model_factory import load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.records import SPLITS, DatasetRecord, Split, SplitScore, TokenizerRecord
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

logger = logging.getLogger(__name__)
NOTICEABLE_SHARE = 0.1  # short lines, such as greetings, stand in any two texts


@dataclass(frozen=True)
class Opened:
    """A model, and a corpus cut and tokenized as the model's own training text was."""

    model: ElmanForCausalLM
    dataset: DatasetRecord
    split: Split  # to be scored
    reported_as: str  # its name, or `all`
    seen_share: float | None  # of what is to be scored: overlap.seen_share


def score_corpus(
    home: Home, folder: Path, config: CorpusConfig, split: Split | None = None, batch_size: int = 64
) -> SplitScore:
    """Score the model in `folder` on a corpus.

    Without a split: `test` where the corpus gives splits or is the one the model was trained on (a figure
    on text it has seen means nothing), else the whole text, reported as split `all`. The unigram baseline
    counts that corpus's own training split; of a whole text, the text itself.
    """
    opened = open_corpus(home, folder, config, split)
    score = score_split(opened.model, opened.dataset, opened.split, batch_size)
    return score.model_copy(update={"split": opened.reported_as, "seen_share": opened.seen_share})


def compare_on_corpus(
    home: Home, folder: Path, config: CorpusConfig, wanted: OnTop, split: Split | None = None
) -> Comparison:
    """The same split's plain perplexity beside those with something on top.

    ConfigError where that wants the other splits, too, and it is not the test split that is scored.
    """
    opened = open_corpus(home, folder, config, split, needs_all_splits=wanted.needs_other_splits)
    if wanted.needs_other_splits and opened.split != "test":
        raise ConfigError(
            f"{config.public_source}: --tune, --interpolate and --dynamic-scaled learn from the train and valid\n"
            f"splits and report on the test split, but {opened.reported_as} is to be scored; give --split test, or none"
        )
    comparison = compare(home, opened.model.language_model, opened.dataset, opened.split, wanted)
    return comparison.model_copy(update={"split": opened.reported_as, "seen_share": opened.seen_share})


def open_corpus(
    home: Home, folder: Path, config: CorpusConfig, split: Split | None, *, needs_all_splits: bool = False
) -> Opened:
    """The split to be scored is as score_corpus says."""
    origin = read_training_provenance(folder)
    model, face = load_model(folder), load_tokenizer(folder)
    corpus = obtain_corpus(home, config)
    whole = split is None and "text" in corpus.files and corpus.digest != origin.corpus_digest
    if whole:  # no share is held back, so all of it lies in the split called train
        corpus = corpus.model_copy(update={"shares": (0.0, 0.0)})
    scored: Split = "train" if whole else (split or "test")
    tokenizer = TokenizerRecord(
        digest=file_digest(folder / "tokenizer.json"),
        folder=folder,
        kind=face.kind,
        vocabulary_size=face.vocabulary_size,
    )
    required = SPLITS if needs_all_splits and not whole else (scored,)
    dataset = store_sequences(home, corpus, tokenizer, origin.cut, required_splits=required)
    reported_as = "all" if whole else scored
    seen = seen_share(home, origin, dataset, scored)
    if seen is None:
        logger.warning("the model's training text is not in this home: whether it holds some of this text is not known")
    elif seen > NOTICEABLE_SHARE:
        logger.warning(
            "%.0f %% of this text stands in the model's training text, too: these are not figures of unseen text",
            100 * seen,
        )
    return Opened(model, dataset, scored, reported_as, seen)
