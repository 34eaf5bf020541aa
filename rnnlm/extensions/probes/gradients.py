"""Gradient norms through time: how far back an error reaches, in one model or in fresh models of each kind.

Backpropagation through time multiplies by one Jacobian per step back. Their product shrinks or grows about
geometrically (Bengio, Simard and Frasconi 1994; Pascanu, Mikolov and Bengio 2013): gradients vanish or explode.
"""

import logging
from collections.abc import Iterator
from contextlib import closing
from itertools import islice, product

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rnnlm.config import ModelConfig, Nonlinearity, RecurrentInitialization
from rnnlm.extensions.probes.probe_config import INITIALIZATIONS, GradientProbeConfig
from rnnlm.extensions.probes.probe_records import GradientCurve
from rnnlm.extensions.probes.probe_training import fit
from rnnlm.models.block import Block
from rnnlm.models.feed_forward import FeedForwardCell
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import RowSource, TokenStream
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.shift import shifted
from rnnlm.sequences.unigram import unigram_log_probabilities
from rnnlm.storage.records import DatasetRecord, Split
from rnnlm.tokenizers.text_tokenizer import BOS

logger = logging.getLogger(__name__)
READ_BY_INPUT = (Block, FeedForwardCell)  # keys, values, scaled memories and pending sums have no norm that compares
ROWS_READ = 8_192  # sentences, from the start of the split
LONGEST_QUARTER = 4  # at most a quarter of the sentences is used
NONLINEARITIES: tuple[Nonlinearity, ...] = ("tanh", "relu")


def gradient_norms(model: LanguageModel, token_ids: Tensor, target_ids: Tensor) -> Tensor:
    """token_ids: (b, t) int64, target_ids: (b,), the token after each row → (L, t) norms by layer and distance.

    Entry (l, k) is the mean over rows of ‖∂ loss / ∂ h‖₂, where loss is -log p(target) in nats after the row's last
    token and h is the state of layer l, k steps before that token's, or in the kinds of READ_BY_INPUT the layer's input
    there. 0 where the loss does not depend on it. Rows start with state zero.
    """
    embedded = model.embedding(token_ids)  # (b, t, E)
    hidden = list(model.stack.initial_state(len(token_ids)).unbind(dim=1))
    states: list[Tensor] = []  # the last time step first: t × L of (b, S)
    for time in range(token_ids.shape[1]):
        below, probed = embedded[:, time], []
        for layer, cell in enumerate(model.stack.cells):
            cell_input = model.stack.layer_input(layer, below)
            output, hidden[layer] = cell.step(cell_input, hidden[layer])
            probed.append(cell_input if isinstance(cell, READ_BY_INPUT) else hidden[layer])
            below = model.stack.layer_output(layer, below, output)
        states = [*probed, *states]
    # A row's loss depends only on its own states, so the gradient of the sum contains each row's gradient.
    loss = functional.cross_entropy(
        model.logits(model.readout(model.stack.output_norm(below))), target_ids, reduction="sum"
    )
    gradients = torch.autograd.grad(loss, states, materialize_grads=True)
    norms = torch.stack([gradient.norm(dim=-1).mean() for gradient in gradients])
    return norms.view(token_ids.shape[1], len(hidden)).t().contiguous()


def input_gradient_norms(model: LanguageModel, token_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Like gradient_norms(), but for token embeddings instead of states: (t,) by distance, the same for every kind."""
    embedded = model.embedding(token_ids).detach().requires_grad_()
    outputs, _ = model.stack(embedded)
    loss = functional.cross_entropy(model.logits(model.readout(outputs[:, -1])), target_ids, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, [embedded])
    return gradient.norm(dim=-1).mean(dim=0).flip(0)


def measure_gradients(dataset: DatasetRecord, config: GradientProbeConfig, window_length: int) -> list[GradientCurve]:
    """Fresh networks with each nonlinearity and initialization, and if configured again after some training steps.

    window_length: predicted tokens per window of the training batches, stream mode.
    """
    token_ids, target_ids = stored_windows(dataset, "valid", config.steps + 1, config.rows)
    curves = []
    for nonlinearity, start, model in variants(dataset, config):
        for steps in (0, config.trained_steps) if config.trained_steps else (0,):
            fit(model, probe_batches(dataset, config, window_length, steps), config.learning_rate)
            norms = gradient_norms(model, token_ids, target_ids).tolist()
            curves.append(GradientCurve(nonlinearity=nonlinearity, start=start, trained_steps=steps, norms=norms))
            logger.info("probe gradients: %s, %s, after %d steps: done", nonlinearity, start, steps)
    return curves


def variants(dataset: DatasetRecord, config: GradientProbeConfig) -> Iterator[tuple[Nonlinearity, str, LanguageModel]]:
    """Each nonlinearity with each initialization, and with a scaled identity, whose gradients explode."""
    unigram = unigram_log_probabilities(dataset)
    starts: list[tuple[str, RecurrentInitialization, float]] = [(name, name, 1.0) for name in INITIALIZATIONS]
    starts.append((f"identity × {config.factor:g}", "identity", config.factor))
    for nonlinearity, (start, initialization, factor) in product(NONLINEARITIES, starts):
        settings = ModelConfig(
            hidden_size=config.hidden_size,
            layers=config.layers,
            nonlinearity=nonlinearity,
            recurrent_initialization=initialization,
            tie_embeddings=False,
        )
        model = build_model(settings, dataset.vocabulary_size, config.seed, unigram)
        with torch.no_grad():
            for cell in model.stack.cells:
                cell.get_parameter("U").mul_(factor)
        yield nonlinearity, start, model


def probe_batches(
    dataset: DatasetRecord, config: GradientProbeConfig, window_length: int, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The first `steps` batches of the training split in training order, over as many epochs as needed."""
    epochs = range(steps)  # each has at least one batch
    batches = TrainingBatches(
        StoredSplit(dataset, "train"), dataset.mode, config.batch_size, window_length, config.seed, epochs
    )
    return ((batch.input_ids, batch.target_ids) for batch in islice(batches, steps))


def stored_windows(dataset: DatasetRecord, split: Split, steps: int, count: int) -> tuple[Tensor, Tensor]:
    """cut_windows() of a dataset's split."""
    with closing(StoredSplit(dataset, split)) as source:
        return cut_windows(source, dataset.mode, steps, count)


def cut_windows(source: RowSource, mode: Mode, steps: int, count: int) -> tuple[Tensor, Tensor]:
    """Inputs (rows, t) int64 and the token after each (rows,): at most `count` rows of at most `steps` tokens.

    stream: windows spread evenly over the text. sentence: the beginnings of the longest sentences, cut to the length of
    the shortest of them. Rows that continue a line longer than the context are left out.
    """
    if mode == "stream":
        stream = TokenStream(source)
        steps = min(steps, stream.predicted)
        count = min(count, stream.predicted - steps + 1)
        starts = np.linspace(0, stream.predicted - steps, count).astype(np.int64).tolist()
        cut = np.stack([stream.read(start, start + steps + 1) for start in starts])
    else:
        rows = source.read(0, min(len(source), ROWS_READ))
        beginnings = np.flatnonzero(rows.token_ids[rows.offsets[:-1]] == BOS)
        assert len(beginnings)  # a stored split has a token, and its first row begins a line
        by_length = beginnings[np.argsort(-rows.predicted[beginnings], kind="stable")]
        longest = by_length[: min(count, -(-len(beginnings) // LONGEST_QUARTER))]
        steps = min(steps, int(rows.predicted[longest].min()))
        cut = np.stack([rows.token_ids[start : start + steps + 1] for start in rows.offsets[longest].tolist()])
    inputs, targets = shifted(torch.from_numpy(cut.astype(np.int64)))
    return inputs.contiguous(), targets[:, -1].contiguous()
