"""Score a shard of documents: a table of what each costs under the model, and its most surprising tokens."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch

from rnnlm.config import SequencesConfig
from rnnlm.evaluation.document_losses import DocumentLoss, document_losses
from rnnlm.metrics import NATS_PER_BIT, finite_or_none
from rnnlm.models.devices import choose_device, has_native_bfloat16
from rnnlm.models.language_model import LanguageModel
from rnnlm.scoring.document_reader import InputDocument
from rnnlm.scoring.scoring_config import ScoringConfig
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


def tail_dtype(config: ScoringConfig) -> torch.dtype:
    """Precision of products with rare classes (LogNormalizer): bfloat16 if the CPU does it natively, or as set."""
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    fast = choose_device(config.device).type == "cpu" and has_native_bfloat16()
    return torch.bfloat16 if fast else torch.float32


class Scorer:
    """Scores shards. The same shard gives the same table, bit by bit, on the same machine."""

    def __init__(
        self, model: LanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, config: ScoringConfig
    ) -> None:
        self.model, self.tokenizer, self.cut, self.config = model, tokenizer, cut, config
        self.tail_dtype = tail_dtype(config)

    def __call__(self, shard: Sequence[InputDocument], known_nll: Iterator[float] | None = None) -> pa.Table:
        """A table of SCORES_SCHEMA, one row per document. known_nll: see document_losses."""
        texts = [with_line_end(document.text or "") for document in shard]
        losses = document_losses(
            self.model, self.tokenizer, texts, self.cut, self.config.batch_size, self.tail_dtype, known_nll
        )
        plain = [None if document.text is None else document.text.rstrip("\r\n") for document in shard]
        columns = {
            "document": [document.number for document in shard],
            "source": [document.source for document in shard],
            "place": [document.place for document in shard],
            "id": [document.id for document in shard],
            "tokens": [loss.tokens for loss in losses],
            "bytes": [loss.byte_count for loss in losses],
            "log_probability": [-loss.summed_nll_nats for loss in losses],
            "perplexity": [finite_or_none(loss.perplexity) for loss in losses],
            "bits_per_byte": [finite_or_none(loss.bits_per_byte) if loss.tokens else None for loss in losses],
            "unknown_rate": [finite_or_none(loss.unknown_rate) for loss in losses],
            "surprising": surprising(losses, self.tokenizer, self.config.surprising_tokens),
            "text": plain if self.config.keep_text else [None] * len(shard),
        }
        return pa.table(columns, schema=SCORES_SCHEMA)


def with_line_end(text: str) -> str:
    """The text with a line feed at the end of every line, so that line ends of the input do not change its cost."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def surprising(losses: list[DocumentLoss], tokenizer: TextTokenizer, count: int) -> pa.Array:
    """The `count` most expensive tokens of each document; the first of equals."""
    places = [np.argsort(-loss.nll_nats, kind="stable")[:count] for loss in losses]
    offsets = np.cumsum([0, *map(len, places)])
    chosen = list(zip(losses, places, strict=True))
    ids = np.concatenate([np.zeros(0, np.int32), *(loss.token_ids[at] for loss, at in chosen)])
    nats = np.concatenate([np.zeros(0, np.float32), *(loss.nll_nats[at] for loss, at in chosen)])
    tokens = pa.StructArray.from_arrays(
        [
            pa.array(tokenizer.pieces(ids.tolist()), pa.string()),
            pa.array(np.concatenate([np.zeros(0, np.int64), *places]), pa.int64()),
            pa.array(nats / np.float32(NATS_PER_BIT), pa.float32()),
        ],
        fields=list(TOKEN_TYPE),
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), tokens, type=TOKENS_TYPE)
