"""How well a model predicts a whole split: exact, with the full softmax, whatever trained it."""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from rnnlm.config import EvaluationConfig
from rnnlm.errors import DatasetError
from rnnlm.evaluation.baselines import baselines, split_facts
from rnnlm.evaluation.full_softmax import TokenLoss
from rnnlm.evaluation.token_losses import nll_of_split, stored_nll
from rnnlm.home import Home
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.hugging_face import ElmanForCausalLM
from rnnlm.records import DatasetRecord, EvaluationRecord, RunRecord, Split, SplitScore
from rnnlm.sequences.batches import Batch, RowSource
from rnnlm.sequences.data_feed import evaluation_batches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import padding_mask
from rnnlm.stages import stage, stage_key, write_json_once


@stage("evaluation")
def evaluate_run(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, *, force: bool = False
) -> EvaluationRecord:
    """The run's model on each configured split, kept in the run's folder."""

    def build() -> dict[str, object]:
        def summed_nll(split: Split) -> float:
            return float(stored_nll(home, dataset, run, split, config.batch_size, force=force).sum(dtype=np.float64))

        return {split: score_of(dataset, split, summed_nll).model_dump() for split in config.splits}

    key = stage_key("evaluation", run=run.run_id, dataset=dataset.dataset_id, splits=config.splits)
    value, skipped = write_json_once(home, run.folder / "evaluation.json", key, build, force=force)
    scores = {split: SplitScore(**score) for split, score in value.items()}
    return EvaluationRecord(scores=scores, skipped=skipped)


def score_split(model: ElmanForCausalLM, dataset: DatasetRecord, split: Split, batch_size: int) -> SplitScore:
    """Perplexity, bits per byte and unknown rate of a whole split, beside the baselines."""

    def summed_nll(split: Split) -> float:
        parts = nll_of_split(model.language_model, StoredSplit(dataset, split), dataset.mode, batch_size)
        return sum(float(part.sum(dtype=np.float64)) for part in parts)

    return score_of(dataset, split, summed_nll)


def score_of(dataset: DatasetRecord, split: Split, summed_nll: Callable[[Split], float]) -> SplitScore:
    """summed_nll: the loss of all predicted tokens of a split, in nats."""
    facts = split_facts(dataset, split)
    if not facts.predicted_tokens:
        raise DatasetError(f"{dataset.folder}: the {split} split holds no token to predict")
    nats = summed_nll(split) / facts.predicted_tokens
    bits = nats * facts.predicted_tokens / math.log(2) + facts.restoration_bits
    reference = baselines(dataset, split)
    return SplitScore(
        split=split,
        tokens=facts.predicted_tokens,
        nll_nats_per_token=nats,
        perplexity=math.exp(nats),
        bits_per_byte=bits / facts.byte_count,
        unknown_rate=facts.unknown_tokens / facts.predicted_tokens,
        uniform_perplexity=reference.uniform_perplexity,
        unigram_perplexity=reference.unigram_perplexity,
    )


def nll_per_token(model: ElmanLanguageModel, source: RowSource, mode: Mode, batch_size: int) -> float:
    """Mean negative log-likelihood in nats over all predicted tokens: summed, then divided once."""
    total, count = nll_of_batches(model, evaluation_batches(source, mode, batch_size))
    return total / count


@torch.inference_mode()
def nll_of_batches(model: ElmanLanguageModel, batches: Iterable[Batch]) -> tuple[float, int]:
    """Summed negative log-likelihood in nats, and over how many predicted tokens."""
    total, count = 0.0, 0
    loss = TokenLoss(model)
    for batch, hidden, target_ids in read_batches(model, batches):
        predicted = padding_mask(target_ids)
        total += float(loss(hidden[predicted], target_ids[predicted]).double().sum())
        count += batch.predicted_tokens
    return total, count


def read_batches(model: ElmanLanguageModel, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Tensor, Tensor]]:
    """Each batch, what the head reads of it (b, t, H or E) and its targets (b, t), on the model's device.

    A stream's state is carried from batch to batch.
    """
    device = model.embedding.weight.device
    state = None
    for batch in batches:
        hidden, state = model.hidden(batch.input_ids.to(device), state if batch.carries_state else None)
        yield batch, hidden, batch.target_ids.to(device)
