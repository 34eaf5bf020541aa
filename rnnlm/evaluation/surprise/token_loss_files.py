"""Write losses to two Parquet files, one with a row per token and one with a row per sentence, chunk by chunk.

A sentence is a line of the corpus: the rows of a long one are joined again, and a stream is split at each `<eos>`.
Memory holds a chunk of tokens and the longest sentence.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.evaluation.token_losses import TokenLosses, joined_losses
from rnnlm.metrics import perplexity
from rnnlm.sequences.segmentation import ends
from rnnlm.storage.records import Split
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer

TOKENS, SEQUENCES = "tokens.parquet", "sequences.parquet"
TEXT_TOKENS = 512  # the text of a sentence is cut there; its losses are not
# Grain: one row per predicted token, in the order of the text.
TOKENS_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("sequence_id", pa.int64()),  # row of shifted_sequences
        ("sentence_id", pa.int64()),  # from 0 within the split
        ("position", pa.int64()),  # from 0 within the sentence
        ("token_id", pa.int32()),
        ("previous_token_id", pa.int32()),
        ("training_count", pa.int64()),  # how often the training split predicts the token
        ("nll_nats", pa.float32()),
    ]
)
# Grain: one row per sentence.
SEQUENCES_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("sentence_id", pa.int64()),
        ("sequence_id", pa.int64()),  # row of shifted_sequences in which it begins
        ("tokens", pa.int64()),  # predicted, <eos> among them
        ("nll_nats", pa.float64()),  # their sum
        ("perplexity", pa.float64()),  # per token
        ("text", pa.string()),
    ]
)


def write_token_losses(
    folder: Path,
    chunks: Iterable[TokenLosses],
    split: Split,
    training_counts: np.ndarray,
    tokenizer: TextTokenizer,
    share: float = 1.0,
) -> None:
    """Write tokens.parquet and sequences.parquet. training_counts: (vocabulary,).

    share: below 1, about this share of the sentences is written. Which ones is random, and the same each time.
    """
    sentence_id, draw = 0, np.random.default_rng(0)
    with (
        pq.ParquetWriter(folder / TOKENS, TOKENS_SCHEMA, compression="zstd") as tokens,
        pq.ParquetWriter(folder / SEQUENCES, SEQUENCES_SCHEMA, compression="zstd") as sequences,
    ):
        for chunk in whole_sentences(chunks):
            starts = sentence_starts(chunk)
            kept = draw.random(len(starts)) < share
            kept_tokens = np.repeat(kept, np.diff(starts, append=len(chunk)))
            tokens.write_table(
                tokens_table(chunk, starts, sentence_id, split, training_counts).filter(pa.array(kept_tokens))
            )
            sequences.write_table(sequences_table(chunk, starts, sentence_id, split, tokenizer).filter(pa.array(kept)))
            sentence_id += len(starts)


def whole_sentences(chunks: Iterable[TokenLosses]) -> Iterator[TokenLosses]:
    """The same tokens in chunks of whole sentences."""
    waiting: list[TokenLosses] = []
    for chunk in chunks:
        starts = sentence_starts(chunk)
        if len(starts):  # else the chunk is within a long sentence
            complete = joined_losses([*waiting, chunk.cut(0, starts[-1])])
            if len(complete):
                yield complete
            waiting, chunk = [], chunk.cut(starts[-1])
        waiting.append(chunk)
    if waiting:
        yield joined_losses(waiting)


def sentence_starts(losses: TokenLosses) -> np.ndarray:
    """Indices of the tokens that begin a sentence: after `<bos>`, or after the previous `<eos>`."""
    return np.flatnonzero(np.isin(losses.previous_ids, (BOS, EOS)))


def tokens_table(
    losses: TokenLosses, starts: np.ndarray, first_sentence: int, split: Split, training_counts: np.ndarray
) -> pa.Table:
    lengths = np.diff(starts, append=len(losses))
    return pa.table(
        {
            "split": pa.repeat(split, len(losses)),
            "sequence_id": losses.sequence_ids,
            "sentence_id": np.repeat(np.arange(first_sentence, first_sentence + len(starts)), lengths),
            "position": np.arange(len(losses)) - np.repeat(starts, lengths),
            "token_id": losses.token_ids,
            "previous_token_id": losses.previous_ids,
            "training_count": training_counts[losses.token_ids],
            "nll_nats": losses.nll_nats,
        },
        schema=TOKENS_SCHEMA,
    )


def sequences_table(
    losses: TokenLosses, starts: np.ndarray, first_sentence: int, split: Split, tokenizer: TextTokenizer
) -> pa.Table:
    lengths = np.diff(starts, append=len(losses))
    nats = np.add.reduceat(losses.nll_nats, starts, dtype=np.float64)
    bounds = ends(lengths).tolist()
    texts = [
        tokenizer.decode(losses.token_ids[first : min(last, first + TEXT_TOKENS)].tolist())
        for first, last in zip(bounds, bounds[1:], strict=False)
    ]
    return pa.table(
        {
            "split": [split] * len(starts),
            "sentence_id": np.arange(first_sentence, first_sentence + len(starts)),
            "sequence_id": losses.sequence_ids[starts],
            "tokens": lengths,
            "nll_nats": nats,
            "perplexity": list(map(perplexity, (nats / lengths).tolist())),
            "text": texts,
        },
        schema=SEQUENCES_SCHEMA,
    )
