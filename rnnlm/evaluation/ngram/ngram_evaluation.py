"""Train, score and sample an n-gram model on a corpus: the command `rnnlm ngram`."""

import time

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.baselines import split_facts
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import Method
from rnnlm.evaluation.ngram.ngram_perplexity import score_ngram_split, unknown_rate
from rnnlm.evaluation.ngram.ngram_sampling import sample_texts
from rnnlm.evaluation.ngram.textbook_backoff import train_textbook
from rnnlm.home import Home
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.records import Record, Sample
from rnnlm.tokenizers.text_tokenizer import load_tokenizer


class NgramResult(Record):
    method: Method
    order: int
    normalised: bool  # False: the scores of all words sum to more than 1, so no figure is a perplexity
    test_perplexity: float
    validation_perplexity: float | None  # None: the textbook has no validation part
    tokens: int  # test tokens predicted
    unknown_rate: float  # share of them not in the vocabulary, or the training part
    seconds: float  # of training (whenever it was) and scoring, without preparing the data
    samples: tuple[Sample, ...]


def measure_ngram(home: Home, pipeline: PipelineConfig, config: NgramConfig) -> NgramResult:
    """Modified Kneser-Ney on the same rows that a neural model is trained and scored on.

    Or the textbook's back-off on the corpus as one stream of words, split 90:10.
    """
    dataset, tokenizer = None, None
    if config.method == "kneser-ney":
        dataset = prepare_dataset(home, pipeline)
        model, tokenizer = train_kneser_ney(home, dataset, config), load_tokenizer(dataset.tokenizer_folder)
    else:
        model = train_textbook(home, obtain_corpus(home, pipeline.corpus), config)
    start = time.perf_counter()
    test = score_ngram_split(model, dataset, "test", config)
    valid = score_ngram_split(model, dataset, "valid", config) if dataset else None
    seconds = model.seconds + time.perf_counter() - start
    unknown = split_facts(dataset, "test").unknown_tokens / test.tokens if dataset else unknown_rate(model, config)
    return NgramResult(
        method=config.method,
        order=config.order,
        normalised=config.method == "kneser-ney",
        test_perplexity=test.perplexity,
        validation_perplexity=valid.perplexity if valid else None,
        tokens=test.tokens,
        unknown_rate=unknown,
        seconds=seconds,
        samples=sample_texts(model, tokenizer, config),
    )
