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
from rnnlm.records import Record, Sample
from rnnlm.sequences.preparation import prepare_dataset
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
    return kneser_ney(home, pipeline, config) if config.method == "kneser-ney" else textbook(home, pipeline, config)


def kneser_ney(home: Home, pipeline: PipelineConfig, config: NgramConfig) -> NgramResult:
    """Modified Kneser-Ney on the same rows that a neural model is trained and scored on."""
    dataset = prepare_dataset(home, pipeline)
    model = train_kneser_ney(home, dataset, config)
    start = time.perf_counter()
    valid, test = (score_ngram_split(model, dataset, split, config) for split in ("valid", "test"))
    seconds = model.seconds + time.perf_counter() - start
    facts = split_facts(dataset, "test")
    return NgramResult(
        method=config.method,
        order=config.order,
        normalised=True,
        test_perplexity=test.perplexity,
        validation_perplexity=valid.perplexity,
        tokens=test.tokens,
        unknown_rate=facts.unknown_tokens / facts.predicted_tokens,
        seconds=seconds,
        samples=sample_texts(model, load_tokenizer(dataset.tokenizer_folder), config),
    )


def textbook(home: Home, pipeline: PipelineConfig, config: NgramConfig) -> NgramResult:
    """The textbook's back-off on the corpus as one stream of words, split 90:10."""
    model = train_textbook(home, obtain_corpus(home, pipeline.corpus), config)
    start = time.perf_counter()
    test = score_ngram_split(model, None, "test", config)
    seconds = model.seconds + time.perf_counter() - start
    return NgramResult(
        method=config.method,
        order=config.order,
        normalised=False,
        test_perplexity=test.perplexity,
        validation_perplexity=None,
        tokens=test.tokens,
        unknown_rate=unknown_rate(model, config),
        seconds=seconds,
        samples=sample_texts(model, None, config),
    )
