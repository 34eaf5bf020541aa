"""Scores of documents as columns, and the line ends and the precision with which documents are scored."""

import numpy as np
import torch

from rnnlm.evaluation.document_losses import DocumentLosses
from rnnlm.metrics import LARGEST_EXPONENT, NATS_PER_BIT
from rnnlm.models.devices import has_native_bfloat16


def tail_dtype(device: torch.device) -> torch.dtype:
    """Return the precision of products with rare classes; see LogNormalizer.

    It is bfloat16 on a CPU that multiplies bfloat16 numbers in hardware, otherwise float32.
    """
    return torch.bfloat16 if device.type == "cpu" and has_native_bfloat16() else torch.float32


def with_line_end(text: str) -> str:
    """Return the text with a line feed at the end of every line, so that its loss does not depend on its line ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def figures(losses: DocumentLosses) -> dict[str, np.ndarray]:
    """Return the values of metrics.Score as columns, (documents,) each. They are NaN where nothing is predicted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "perplexity": np.exp(np.minimum(losses.summed_nll_nats / losses.tokens, LARGEST_EXPONENT)),
            "bits_per_byte": (losses.summed_nll_nats / NATS_PER_BIT + losses.restoration_bits) / losses.byte_count,
            "unknown_rate": losses.unknown_tokens / losses.tokens,
        }
    return {
        name: np.where((losses.tokens == 0) | ~np.isfinite(values), np.nan, values) for name, values in columns.items()
    }
