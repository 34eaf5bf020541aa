"""Train and test small networks in a short loop, with the models, optimizer and clipping of ordinary training."""

from collections.abc import Iterable

import torch
from torch import Tensor

from rnnlm.config import OptimizerConfig
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.tokenizers.text_tokenizer import PAD
from rnnlm.training.optimizers import clip_gradients, make_optimizer


def fit(model: LanguageModel, batches: Iterable[tuple[Tensor, Tensor]], learning_rate: float) -> list[float]:
    """Train a model with one step per batch, and return the loss before each step in nats per token.

    A batch consists of input_ids and target_ids of shape (b, t). A target is `<pad>` where there is nothing to predict.
    Each batch starts from a state of zeros. The learning rate is constant.
    """
    config = OptimizerConfig(learning_rate=learning_rate, weight_decay=0.0)
    optimizer = make_optimizer(model, config)
    losses = []
    for input_ids, target_ids in batches:
        hidden, _ = model.hidden(input_ids)
        loss = exact_cross_entropy(model, hidden, target_ids)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_gradients(model.parameters(), config.clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist() if losses else []


@torch.inference_mode()
def accuracy(model: LanguageModel, input_ids: Tensor, target_ids: Tensor) -> float:
    """Return the fraction of targets that are the model's most likely token."""
    hidden, _ = model.hidden(input_ids)
    asked = target_ids != PAD
    guesses = model.logits(hidden[asked]).argmax(dim=-1)
    return float((guesses == target_ids[asked]).double().mean())
