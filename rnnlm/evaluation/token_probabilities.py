"""Export of the probability of every token of a split, for mixing the model with models of other programs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.errors import HomeError
from rnnlm.evaluation.token_losses import joined_nll, nll_of_split, token_losses
from rnnlm.models.language_model import LanguageModel
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.storage.home import atomic_file
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

# The columns of the exported table. Its rows are the predicted tokens in the order of the text.
PROBABILITIES_SCHEMA = pa.schema([("token_id", pa.int32()), ("token", pa.string()), ("probability", pa.float64())])


def write_probabilities(path: Path, model: LanguageModel, dataset: DatasetRecord, split: Split) -> None:
    """Write a Parquet file of PROBABILITIES_SCHEMA. Raise HomeError if `path` cannot be written."""
    tokenizer, source = load_tokenizer(dataset.tokenizer_folder), StoredSplit(dataset, split)
    pieces = pa.array(tokenizer.pieces(range(tokenizer.vocabulary_size)), pa.string())
    nll_nats = joined_nll(nll_of_split(model, source, dataset.mode))
    try:
        with atomic_file(path) as partial, pq.ParquetWriter(partial, PROBABILITIES_SCHEMA) as writer:
            for losses in token_losses(source, nll_nats):
                token_ids = pa.array(losses["token_id"])
                probabilities = np.exp(-losses["nll_nats"].astype(np.float64))
                writer.write_table(
                    pa.table([token_ids, pieces.take(token_ids), probabilities], schema=PROBABILITIES_SCHEMA)
                )
    except OSError as error:
        raise HomeError(f"{path}: cannot be written ({error.strerror or error}); give another file") from error
