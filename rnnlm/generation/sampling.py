"""Choosing the next token, and going on from there with the state carried. Needs torch alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    maximum_tokens: int = 40
    temperature: float = 0.8  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    seed: int = 0


class RecurrentModel(Protocol):
    """(1, t) token ids and the state before them → (1, t, V) logits and the state after them."""

    def __call__(self, token_ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]: ...


def sample_next(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """logits: (V,) → the id of the next token."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    probabilities = torch.softmax(kept(logits.float() / sampling.temperature, sampling), dim=-1)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def kept(logits: Tensor, sampling: Sampling) -> Tensor:
    """logits: (V,) with -inf for what top-k and top-p (Holtzman et al. 2020) leave out."""
    if 0 < sampling.top_k < len(logits):
        threshold = logits.topk(sampling.top_k).values[-1]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    if sampling.top_p < 1:
        ordered, order = logits.sort(descending=True, stable=True)
        probabilities = ordered.softmax(dim=-1)
        # A token stays while the ones before it hold less than top_p: the first always stays.
        before = probabilities.cumsum(dim=-1) - probabilities
        logits = logits.index_fill(0, order[before >= sampling.top_p], float("-inf"))
    return logits


@torch.inference_mode()
def stream_ids(model: RecurrentModel, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> Iterator[int]:
    """New token ids one by one, up to and with `<eos>`. The prompt is read once; then one token a step."""
    device = next(model.parameters()).device if isinstance(model, torch.nn.Module) else torch.device("cpu")
    generator = torch.Generator().manual_seed(sampling.seed)
    logits, state = model(torch.tensor([prompt_ids], device=device))
    for _ in range(sampling.maximum_tokens):
        token_id = sample_next(logits[0, -1].cpu(), sampling, generator)
        yield token_id
        if token_id == eos_id:
            return
        logits, state = model(torch.tensor([[token_id]], device=device), state)


def continue_ids(model: RecurrentModel, prompt_ids: list[int], sampling: Sampling, eos_id: int) -> list[int]:
    """All new token ids; the same seed gives the same ones. prompt_ids begin with `<bos>`."""
    return list(stream_ids(model, prompt_ids, sampling, eos_id))
