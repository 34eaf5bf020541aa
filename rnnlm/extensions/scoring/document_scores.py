"""Score a shard of documents. The result is a table with the loss and the most surprising tokens of each document."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_figures import figures, tail_dtype, with_line_end
from rnnlm.evaluation.document_losses import DocumentLosses, document_losses
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.models.devices import choose_device
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.segmentation import ends
from rnnlm.tokenizers.text_tokenizer import TextTokenizer

TOKEN_TYPE = pa.struct([("token", pa.string()), ("place", pa.int64()), ("bits", pa.float32())])
# The name "element" is the one that Parquet uses, so that the type is the same after reading a file.
TOKENS_TYPE = pa.list_(pa.field("element", TOKEN_TYPE))
# The columns of a table with one row per document, in the order of the inputs.
SCORES_SCHEMA = pa.schema(
    [
        ("document", pa.int64()),  # The number of the document, counted from 0 in all input files.
        ("source", pa.string()),  # The file that contains the document.
        ("place", pa.int64()),  # The number of the line, paragraph or row within the file, from 0.
        ("id", pa.string()),  # The value of the input's id column, or null without one.
        ("tokens", pa.int64()),  # The number of predicted tokens, including an <eos> per line.
        ("bytes", pa.int64()),  # The number of UTF-8 bytes of the text and its line ends, including the last one.
        ("log_probability", pa.float64()),  # The sum of the natural log-probabilities of all tokens.
        ("perplexity", pa.float64()),  # Perplexity per token, or null if there are no tokens.
        # The loss in bits per byte. A word outside the vocabulary adds 8 bits per byte of the word to the loss of
        # <unk>.
        ("bits_per_byte", pa.float64()),
        ("unknown_rate", pa.float64()),  # The fraction of tokens that stand for a word outside the vocabulary.
        # The tokens with the highest loss, in descending order of loss. Their field `place` counts the document's
        # tokens from 0.
        ("surprising", TOKENS_TYPE),
        ("text", pa.string()),  # The text without its last line end, or null if texts are not kept.
    ]
)


def chosen_tail_dtype(config: ScoringConfig) -> torch.dtype:
    """Return the configured precision of the output layer for rare classes, or the device's default for `auto`."""
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return tail_dtype(choose_device(config.device))


class Scorer:
    """A scorer of shards. Equal shards give bit-identical tables on the same machine."""

    def __init__(
        self, model: LanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, config: ScoringConfig
    ) -> None:
        self.model, self.tokenizer, self.cut, self.config = model, tokenizer, cut, config
        self.tail_dtype = chosen_tail_dtype(config)
        self.pieces = pa.array(tokenizer.pieces(range(tokenizer.vocabulary_size)), pa.string())

    def __call__(self, shard: pa.Table, known_nll: Iterator[float] | None = None) -> pa.Table:
        """Score a shard of INPUT_SCHEMA, and return a table of SCORES_SCHEMA with one row per document.

        `known_nll` are the losses of the tokens if they are known; see document_losses.
        """
        texts = [with_line_end(text or "") for text in shard["text"].to_pylist()]
        losses = document_losses(
            self.model, self.tokenizer, texts, self.cut, self.config.batch_size, self.tail_dtype, known_nll
        )
        columns = {
            "document": shard["number"],
            "source": shard["source"],
            "place": shard["place"],
            "id": shard["id"],
            "tokens": losses.tokens,
            "bytes": losses.byte_count,
            "log_probability": -losses.summed_nll_nats,
            **{name: pa.array(values, mask=np.isnan(values)) for name, values in figures(losses).items()},
            "surprising": surprising(losses, self.pieces, self.config.surprising_tokens),
            "text": pc.utf8_rtrim(shard["text"], "\r\n")
            if self.config.keep_text
            else pa.nulls(len(shard), pa.string()),
        }
        return pa.table(columns, schema=SCORES_SCHEMA)


def surprising(losses: DocumentLosses, pieces: pa.Array, count: int) -> pa.Array:
    """Return the `count` tokens with the highest loss of each document. Of equal losses, earlier ones come first.

    `pieces` has the spelling of each token id.
    """
    firsts = ends(losses.tokens)
    owners = np.repeat(np.arange(len(losses)), losses.tokens)
    # The losses are sorted by their bit patterns, which have the same order for non-negative floats. Adding 0 turns
    # -0.0 into 0.0.
    nats = np.maximum(losses.nll_nats, 0) + np.float32(0)
    # The indices of the tokens, sorted by document and, within a document, by descending loss.
    dearest = np.argsort((owners << 32) - nats.view(np.int32), kind="stable")
    chosen = dearest[np.arange(len(dearest)) - firsts[owners] < count]
    tokens = pa.StructArray.from_arrays(
        [
            pieces.take(pa.array(losses.token_ids[chosen])),
            pa.array(chosen - firsts[owners[chosen]]),
            pa.array(losses.nll_nats[chosen] / np.float32(NATS_PER_BIT)),
        ],
        fields=list(TOKEN_TYPE),
    )
    offsets = ends(np.minimum(losses.tokens, count)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), tokens, type=TOKENS_TYPE)
