"""Training, scoring and sampling of an n-gram model on a corpus in SQL, for `rnnlm ngram`."""

import time
from collections.abc import Sequence

import duckdb
import numpy as np

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import DatasetError
from rnnlm.evaluation.baselines import split_facts
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import Method, NgramConfig
from rnnlm.evaluation.ngram.ngram_database import NgramRecord, open_model
from rnnlm.evaluation.ngram.textbook_backoff import train_textbook
from rnnlm.metrics import Score
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, Record, Sample, Split
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer, load_tokenizer

DISTRIBUTIONS = {"kneser-ney": "ngram/distribute_kneser_ney", "textbook": "ngram/distribute_textbook"}


class NgramResult(Record):
    method: Method
    order: int
    # False if the scores of all words sum to more than 1. In this case, the exponential of the mean loss is not a
    # perplexity.
    normalised: bool
    test_perplexity: float
    # The validation perplexity, or None for the textbook's back-off model, which has no validation text.
    validation_perplexity: float | None
    tokens: int  # The number of predicted tokens in the test split.
    # The fraction of the test tokens that do not occur in the vocabulary or, for the textbook model, in its training
    # part.
    unknown_rate: float
    # The time in seconds that training (even in an earlier call) and scoring took, without the preparation of the data.
    seconds: float
    samples: tuple[Sample, ...]


def measure_ngram(home: Home, pipeline: PipelineConfig, config: NgramConfig) -> NgramResult:
    """Train and score an n-gram model.

    A modified Kneser-Ney model uses the same rows on which neural models are trained and scored. The back-off model of
    the textbook uses the corpus as one stream of words, of which 90 % are for training and 10 % for testing.
    """
    dataset, tokenizer = None, None
    if config.method == "kneser-ney":
        dataset = prepare_dataset(home, pipeline)
        model, tokenizer = train_kneser_ney(home, dataset, config), load_tokenizer(dataset.tokenizer_folder)
    else:
        model = train_textbook(home, obtain_corpus(home, pipeline.corpus), config)
    start = time.perf_counter()
    test = score_ngram_split(model, dataset, "test")
    valid = score_ngram_split(model, dataset, "valid") if dataset else None
    seconds = model.seconds + time.perf_counter() - start
    unknown = split_facts(dataset, "test").unknown_tokens / test.tokens if dataset else unknown_rate(model)
    return NgramResult(
        method=config.method,
        order=config.order,
        normalised=config.method == "kneser-ney",
        test_perplexity=test.perplexity,
        validation_perplexity=valid.perplexity if valid else None,
        tokens=test.tokens,
        unknown_rate=unknown,
        seconds=seconds,
        samples=sample_texts(model, tokenizer),
    )


def score_ngram_split(model: NgramRecord, dataset: DatasetRecord | None, split: Split) -> Score:
    """Return the score of an n-gram model on a whole split.

    The back-off model of the textbook contains its own text, so `dataset` may be None. The scores that it gives to all
    words sum to more than 1, so the result is not a perplexity.
    """
    with open_model(model, dataset.database if dataset else None) as connection:
        (row,) = table(connection, "ngram/measure_score", {"split": split})
    if not row["tokens"]:
        raise DatasetError(f"the {split} split has no token to predict; give a longer text")
    return Score(**row)


def unknown_rate(model: NgramRecord) -> float:
    """Return the fraction of the words in the textbook model's test part that do not occur in its training part."""
    with open_model(model) as connection:
        [(rate,)] = connection.execute(statement("ngram/measure_unknown_rate"), {"split": "test"}).fetchall()
    return float(rate)


def sample_texts(model: NgramRecord, tokenizer: TextTokenizer | None) -> tuple[Sample, ...]:
    """Draw the configured number of texts. The same seed gives the same texts.

    SQL computes each distribution, and NumPy draws from it. A text of the Kneser-Ney model begins with <bos> and ends
    with <eos>. The back-off model of the textbook has neither of these tokens and no tokenizer. Its texts begin with
    the empty context and have config.maximum_tokens tokens.
    """
    config, samples = model.config, []
    generator = np.random.default_rng(config.seed)
    with open_model(model) as connection:
        for _ in range(config.samples):
            context = [BOS] if tokenizer else []
            drawn: list[int] = []
            words: list[str] = []
            while len(drawn) < config.maximum_tokens and not (tokenizer and drawn[-1:] == [EOS]):
                ids, tokens, probabilities = next_distribution(connection, config.method, context + drawn)
                index = int(generator.choice(len(ids), p=probabilities / probabilities.sum()))
                drawn.append(int(ids[index]))
                words.append(str(tokens[index]))
            text = (tokenizer.decode(drawn) if tokenizer else " ".join(words)).strip()
            samples.append(Sample(prompt="", text=text, whole=text, tokens=len(drawn)))
    return tuple(samples)


def next_distribution(
    connection: duckdb.DuckDBPyConnection, method: Method, context: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids, texts and probabilities of all possible next tokens, (predictable,) each.

    Only the last order - 1 ids of `context` are used.
    """
    last = [0, 0, 0, 0, *context][-4:]
    columns = connection.execute(
        statement(DISTRIBUTIONS[method]), dict(zip(("c4", "c3", "c2", "c1"), last, strict=True))
    ).fetchnumpy()
    return tuple(np.asarray(columns[name]) for name in ("token_id", "token", "probability"))  # type: ignore[return-value]
