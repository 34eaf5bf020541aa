"""Export a model's n-gram counts to an ARPA file, which KenLM, SRILM, Kaldi and pyctcdecode can read.

Each n-gram is listed with log₁₀ of its interpolated probability. If an n-gram is also the context of longer n-grams,
log₁₀ of its interpolation weight gamma is its back-off weight. A program that reads the file computes the same
probabilities as count_model.py:

    p(w | context) = the listed one, else gamma(context) p(w | shorter context)

Here gamma of an unknown context is 1.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from rnnlm.errors import ConfigError, ModelError
from rnnlm.models.count_model import CountModel
from rnnlm.models.model_factory import load_model
from rnnlm.storage.home import atomic_file
from rnnlm.storage.records import Record
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, UNK, load_tokenizer

NEVER = -99.0  # The number that represents log₁₀ 0 in ARPA files.
SPECIAL = {UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
UNKNOWN_IN_CAPITALS = "<UNK>"  # Another spelling of <unk>, which KenLM reads as <unk>.
NGRAMS_AT_ONCE = 1 << 18


class ArpaRecord(Record):
    """The result of exporting a model's n-gram counts to an ARPA file."""

    file: Path
    file_bytes: int
    ngrams: tuple[int, ...]  # The number of n-grams of each order, beginning with order 1.
    without_network: bool  # True if the model also has a network, which is not in the file.


def export_arpa(folder: Path, file: Path) -> ArpaRecord:
    """Write the n-gram counts of the model in `folder` to `file`.

    Raise ModelError if the model has no counts, and ConfigError if `file` cannot be written.
    """
    mixture = load_model(folder).mixture
    if mixture is None:
        raise ModelError(f"{folder}: the model has no counts; train one with model.counts=5 or model.kind=kneser-ney")
    tokenizer = load_tokenizer(folder)
    words = spellings(tokenizer.pieces(range(mixture.counts.vocabulary_size)))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file) as partial, partial.open("w", encoding="utf-8") as stream:
            sizes = write_arpa(mixture.counts, words, stream)
    except OSError as error:
        raise ConfigError(f"--output {file}: cannot be written ({error.strerror}); give another file") from error
    return ArpaRecord(
        file=file, file_bytes=file.stat().st_size, ngrams=tuple(sizes), without_network=not mixture.is_alone
    )


def spellings(pieces: Sequence[str]) -> list[str]:
    """Return the spelling of each token in an ARPA file. The spellings have no white space and are all different.

    The ends of a sentence are spelled <s> and </s>. White space is replaced by its character code. If another token
    already has the spelling of a word, the first character of the word is replaced, too.
    """
    words, taken = [], {*SPECIAL.values(), UNKNOWN_IN_CAPITALS}
    for token_id, piece in enumerate(pieces):
        word = SPECIAL.get(token_id)
        if word is None:
            # NUL is also replaced, because readers of ARPA files treat it as white space.
            word = re.sub(r"[\s\0]", lambda found: code_of(found[0]), piece) or "<empty>"
            while word in taken:
                word = code_of(word[0]) + word[1:]
            taken.add(word)
        words.append(word)
    return words


def code_of(character: str) -> str:
    """Return the code of a character, such as `<0x20>` for a space."""
    return f"<0x{ord(character):02X}>"


def write_arpa(counts: CountModel, words: Sequence[str], stream: IO[str]) -> list[int]:
    """Write the n-gram model to a stream, and return the number of n-grams of each order.

    `words` has the spelling of each token id.
    """
    ngrams = list(ngrams_by_order(counts))
    stream.write("\\data\\\n")
    stream.writelines(f"ngram {order}={len(rows)}\n" for order, rows in enumerate(ngrams, start=1))
    for order, rows in enumerate(ngrams, start=1):
        stream.write(f"\n\\{order}-grams:\n")
        for first in range(0, len(rows), NGRAMS_AT_ONCE):
            stream.writelines(lines(counts, words, rows[first : first + NGRAMS_AT_ONCE]))
    stream.write("\n\\end\\\n")
    return [len(rows) for rows in ngrams]


def ngrams_by_order(counts: CountModel) -> Iterator[np.ndarray]:
    """Yield all n-grams of each order as rows of token ids, (N, order), in ascending order.

    They include the contexts and all single tokens.
    """
    contexts = context_tokens(counts)
    for length, level in enumerate(counts.levels):
        ending = np.repeat(contexts[length], sizes_of(level.first_word), axis=0)
        rows = [np.hstack([ending[:, ::-1], level.words[:, None].astype(np.int64)])]
        if length + 1 < counts.order:
            rows.append(contexts[length + 1][:, ::-1])
        if not length:
            rows.append(np.array([BOS, *counts.predictable.tolist()])[:, None])
        yield np.unique(np.concatenate(rows), axis=0)


def context_tokens(counts: CountModel) -> list[np.ndarray]:
    """Return the tokens of all contexts of each length, (contexts, length), with the last token first."""
    found = [np.zeros((1, 0), np.int64)]
    for above, level in pairwise(counts.levels):
        parents = np.repeat(found[-1], sizes_of(above.first_child), axis=0)
        found.append(np.hstack([parents, level.tokens[:, None].astype(np.int64)]))
    return found


def sizes_of(first: np.ndarray) -> np.ndarray:
    """Return the number of values in each range, (n,). `first` is the index of each range's first value, (n + 1,)."""
    places = first.astype(np.int64)
    sizes: np.ndarray = places[1:] - places[:-1]
    return sizes


def lines(counts: CountModel, words: Sequence[str], ngrams: np.ndarray) -> Iterable[str]:
    """Return one line per n-gram: probability, tab, n-gram and, below the highest order, tab and back-off weight.

    `ngrams` has the shape (N, order).
    """
    order = ngrams.shape[1]
    contexts = np.pad(ngrams[:, :-1][:, ::-1], [(0, 0), (0, counts.order - order)])
    with np.errstate(divide="ignore"):  # The probability of <s> is 0, because it is never predicted.
        log_probabilities, _ = counts.log_probabilities(contexts, ngrams[:, -1])
    probabilities = np.maximum(log_probabilities / np.log(10), NEVER).tolist()
    texts = [" ".join([words[token_id] for token_id in ngram]) for ngram in ngrams.tolist()]
    if order == counts.order:
        return [f"{p:.7g}\t{text}\n" for p, text in zip(probabilities, texts, strict=True)]
    weights = back_off_weights(counts, ngrams).tolist()
    return [f"{p:.7g}\t{text}\t{weight:.7g}\n" for p, text, weight in zip(probabilities, texts, weights, strict=True)]


def back_off_weights(counts: CountModel, ngrams: np.ndarray) -> np.ndarray:
    """Return the back-off weight of each n-gram, (N,), which is log₁₀ of gamma, or 0 if it is not a context."""
    nodes, known = np.zeros(len(ngrams), np.int64), np.ones(len(ngrams), bool)
    for length, tokens in enumerate(ngrams.T[::-1], start=1):
        places, found = counts.children(length - 1, nodes, tokens)
        known &= found
        nodes = np.where(known, places, 0)
    with np.errstate(divide="ignore"):
        weights = np.log10(counts.gammas[ngrams.shape[1]][nodes])
    return np.where(known, np.maximum(weights, NEVER), 0.0)
