"""Score a shard of documents: a table of what each costs under the model, and its most surprising tokens."""

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
TOKENS_TYPE = pa.list_(pa.field("element", TOKEN_TYPE))  # Parquet's name, so that a file read back has this type
# Grain: one row per document, in the order of the inputs.
SCORES_SCHEMA = pa.schema(
    [
        ("document", pa.int64()),  # from 0, over all inputs
        ("source", pa.string()),  # the file it came from
        ("place", pa.int64()),  # from 0, within that file: its line, paragraph or row
        ("id", pa.string()),  # of the input's id column; null without one
        ("tokens", pa.int64()),  # predicted, each line's <eos> among them
        ("bytes", pa.int64()),  # UTF-8, line ends included, the last one too
        ("log_probability", pa.float64()),  # natural logarithm, of the tokens together
        ("perplexity", pa.float64()),  # per token; null where nothing is predicted
        ("bits_per_byte", pa.float64()),  # a word that the vocabulary lacks at 8 bits a byte on top of its <unk>
        ("unknown_rate", pa.float64()),  # share of the tokens that stand for such a word
        ("surprising", TOKENS_TYPE),  # the most surprising first; place: from 0, among the document's tokens
        ("text", pa.string()),  # without its last line end; null where it is not kept
    ]
)


def chosen_tail_dtype(config: ScoringConfig) -> torch.dtype:
    """Return the precision of products with rare classes: as set, or what suits the device."""
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return tail_dtype(choose_device(config.device))


class Scorer:
    """Scores shards. The same shard gives the same table, bit by bit, on the same machine."""

    def __init__(
        self, model: LanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, config: ScoringConfig
    ) -> None:
        self.model, self.tokenizer, self.cut, self.config = model, tokenizer, cut, config
        self.tail_dtype = chosen_tail_dtype(config)
        self.pieces = pa.array(tokenizer.pieces(range(tokenizer.vocabulary_size)), pa.string())

    def __call__(self, shard: pa.Table, known_nll: Iterator[float] | None = None) -> pa.Table:
        """Score a shard: a table of SCORES_SCHEMA, one row for each document.

        shard: of INPUT_SCHEMA. known_nll: see document_losses.
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
    """Return the `count` most expensive tokens of each document, the first of equals.

    pieces: each token id's spelling.
    """
    firsts = ends(losses.tokens)
    owners = np.repeat(np.arange(len(losses)), losses.tokens)
    nats = np.maximum(losses.nll_nats, 0) + np.float32(0)  # no -0.0: the bits of positive floats ascend as they do
    dearest = np.argsort((owners << 32) - nats.view(np.int32), kind="stable")  # document by document, as the tokens are
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
