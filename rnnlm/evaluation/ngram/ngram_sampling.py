"""Sample text from an n-gram model: SQL gives each distribution, NumPy draws from it."""

from collections.abc import Sequence

import duckdb
import numpy as np

from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import Method, NgramRecord, open_model
from rnnlm.storage.records import Sample
from rnnlm.storage.sql_statements import statement
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer

DISTRIBUTIONS = {"kneser-ney": "ngram/distribute_kneser_ney", "textbook": "ngram/distribute_textbook"}


def sample_texts(model: NgramRecord, tokenizer: TextTokenizer | None, config: NgramConfig) -> tuple[Sample, ...]:
    """config.samples texts, the same for the same seed.

    Kneser-Ney starts from <bos> and stops at <eos>; the textbook's stream has neither and no tokenizer: it starts
    from the empty context and stops at config.maximum_tokens.
    """
    generator = np.random.default_rng(config.seed)
    start, stop = ([BOS], EOS) if tokenizer else ([], None)
    samples = []
    with open_model(model, config) as connection:
        for _ in range(config.samples):
            drawn = sample_tokens(connection, model.method, start, stop, config.maximum_tokens, generator)
            ids = [token_id for token_id, _ in drawn]
            text = tokenizer.decode(ids) if tokenizer else " ".join(word for _, word in drawn)
            samples.append(Sample(prompt="", text=text.strip(), whole=text.strip(), tokens=len(drawn)))
    return tuple(samples)


def sample_tokens(
    connection: duckdb.DuckDBPyConnection,
    method: Method,
    start: Sequence[int],
    stop: int | None,
    maximum_tokens: int,
    generator: np.random.Generator,
) -> list[tuple[int, str]]:
    """New (id, token) one by one after `start`, up to and with `stop`, at most `maximum_tokens`."""
    state, drawn = list(start), []
    for _ in range(maximum_tokens):
        ids, tokens, probabilities = next_distribution(connection, method, state)
        index = int(generator.choice(len(ids), p=probabilities / probabilities.sum()))
        drawn.append((int(ids[index]), str(tokens[index])))
        if ids[index] == stop:
            break
        state = [*state, int(ids[index])][-4:]
    return drawn


def next_distribution(
    connection: duckdb.DuckDBPyConnection, method: Method, context: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, tokens and probabilities (all (predictable,)) of the next token; only the last order - 1 ids matter."""
    last = [0, 0, 0, 0, *context][-4:]
    columns = connection.execute(
        statement(DISTRIBUTIONS[method]), dict(zip(("c4", "c3", "c2", "c1"), last, strict=True))
    ).fetchnumpy()
    return tuple(np.asarray(columns[name]) for name in ("token_id", "token", "probability"))  # type: ignore[return-value]
