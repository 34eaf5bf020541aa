"""Score batches of texts in Python, for example by `datasets.Dataset.map(…, batched=True)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rnnlm.extensions.scoring.bulk_scoring import cached_scorer
from rnnlm.extensions.scoring.document_reader import InputDocument, documents_table
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.scoring_model import FoundModel, find_model
from rnnlm.storage.home import find_home

BATCH_COLUMNS = ("tokens", "bytes", "log_probability", "perplexity", "bits_per_byte", "unknown_rate")
BATCH_SETTINGS = ScoringConfig(input="-", keep_text=False, surprising_tokens=0)


@dataclass(frozen=True)
class BatchScorer:
    """A callable that adds the columns that `rnnlm score` writes to a batch of rows.

    It can be pickled, and loads its model when it is first called. In `dataset.map(batch_scorer("rnnlm-python-docs"),
    batched=True)`, datasets caches the result under the model's digest.
    """

    model: FoundModel
    column: str

    def __call__(self, batch: Mapping[str, Sequence[str | None]]) -> dict[str, list[Any]]:
        """Return BATCH_COLUMNS for the batch's texts. Rows without text have nulls, as in `rnnlm score`."""
        scores = self.scores(batch[self.column])
        return {name: scores[name].to_pylist() for name in BATCH_COLUMNS}

    def scores(self, texts: Sequence[str | None]) -> pa.Table:
        """Return a table of SCORES_SCHEMA with one row per text. Its column `text` is empty."""
        documents = [InputDocument(number, "", number, None, text) for number, text in enumerate(texts)]
        return cached_scorer(self.model, BATCH_SETTINGS)(documents_table(documents))

    def log_probabilities(self, texts: Sequence[str]) -> list[float]:
        """Return the natural logarithm of each text's probability, including its line ends."""
        found: list[float] = self.scores(texts)["log_probability"].to_pylist()
        return found


def batch_scorer(model: str | None = None, column: str = "text") -> BatchScorer:
    """Return a scorer for a registered name, a run's id or a model folder.

    Raise ModelError if there is no such model.
    """
    return BatchScorer(find_model(find_home(), model), column)
