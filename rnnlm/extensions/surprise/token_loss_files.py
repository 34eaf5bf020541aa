"""Write losses to two Parquet files, one with a row per token and one with a row per sentence, in chunks.

A sentence is a line of the corpus. The rows of a long line are joined again, and a stream is split at each `<eos>`. At
most one chunk of tokens and the longest sentence are in memory.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.metrics import perplexity
from rnnlm.storage.records import Split
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer

TOKENS, SEQUENCES = "tokens.parquet", "sequences.parquet"
TEXT_TOKENS = 512  # The number of tokens after which the text of a sentence is truncated. Its losses are complete.
# The columns of a table with one row per predicted token, in the order of the text.
TOKENS_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("sequence_id", pa.int64()),  # The id of the row in shifted_sequences that contains the token.
        ("sentence_id", pa.int64()),  # The number of the sentence within the split, from 0.
        ("position", pa.int64()),  # The position of the token within the sentence, from 0.
        ("token_id", pa.int32()),
        ("previous_token_id", pa.int32()),
        ("training_count", pa.int64()),  # The number of times that the token is a target in the training split.
        ("nll_nats", pa.float32()),
    ]
)
# The columns of a table with one row per sentence.
SEQUENCES_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("sentence_id", pa.int64()),
        ("sequence_id", pa.int64()),  # The id of the row in shifted_sequences in which the sentence begins.
        ("tokens", pa.int64()),  # The number of predicted tokens, including <eos>.
        ("nll_nats", pa.float64()),  # The sum of the losses of the sentence's tokens.
        ("perplexity", pa.float64()),  # The perplexity of the sentence per token.
        ("text", pa.string()),
    ]
)


def write_token_losses(
    folder: Path,
    chunks: Iterable[np.ndarray],
    split: Split,
    training_counts: np.ndarray,
    tokenizer: TextTokenizer,
    share: float = 1.0,
) -> None:
    """Write tokens.parquet and sequences.parquet.

    `chunks` are arrays of TOKEN_LOSS, (tokens,) each, and `training_counts` has the shape (vocabulary,). If `share` is
    below 1, about this fraction of the sentences is written. The sample is random, but the same in every call.
    """
    first_sentence, draw = 0, np.random.default_rng(0)
    with (
        pq.ParquetWriter(folder / TOKENS, TOKENS_SCHEMA, compression="zstd") as tokens,
        pq.ParquetWriter(folder / SEQUENCES, SEQUENCES_SCHEMA, compression="zstd") as sequences,
    ):
        for losses in whole_sentences(chunks):
            starts = sentence_starts(losses)
            lengths = np.diff(starts, append=len(losses))
            sentence_ids = first_sentence + np.arange(len(starts))
            kept = draw.random(len(starts)) < share
            token_columns = {
                "split": pa.repeat(split, len(losses)),
                "sequence_id": losses["sequence_id"],
                "sentence_id": np.repeat(sentence_ids, lengths),
                "position": np.arange(len(losses)) - np.repeat(starts, lengths),
                "token_id": losses["token_id"],
                "previous_token_id": losses["previous_token_id"],
                "training_count": training_counts[losses["token_id"]],
                "nll_nats": losses["nll_nats"],
            }
            nats = np.add.reduceat(losses["nll_nats"], starts, dtype=np.float64)
            sentence_columns = {
                "split": pa.repeat(split, len(starts)),
                "sentence_id": sentence_ids,
                "sequence_id": losses["sequence_id"][starts],
                "tokens": lengths,
                "nll_nats": nats,
                "perplexity": list(map(perplexity, (nats / lengths).tolist())),
                "text": [
                    tokenizer.decode(ids[:TEXT_TOKENS].tolist()) for ids in np.split(losses["token_id"], starts[1:])
                ],
            }
            kept_tokens = pa.array(np.repeat(kept, lengths))
            tokens.write_table(pa.table(token_columns, schema=TOKENS_SCHEMA).filter(kept_tokens))
            sequences.write_table(pa.table(sentence_columns, schema=SEQUENCES_SCHEMA).filter(pa.array(kept)))
            first_sentence += len(starts)


def whole_sentences(chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the tokens of `chunks` in new chunks that consist of whole sentences."""
    waiting: list[np.ndarray] = []
    for chunk in chunks:
        starts = sentence_starts(chunk)
        if len(starts):  # If no sentence begins in this chunk, the whole chunk belongs to a long sentence.
            complete = np.concatenate([*waiting, chunk[: starts[-1]]])
            if len(complete):
                yield complete
            waiting, chunk = [], chunk[starts[-1] :]
        waiting.append(chunk)
    if waiting:
        yield np.concatenate(waiting)


def sentence_starts(losses: np.ndarray) -> np.ndarray:
    """Return the indices of the tokens that begin a sentence, because they follow `<bos>` or `<eos>`."""
    return np.flatnonzero(np.isin(losses["previous_token_id"], (BOS, EOS)))
