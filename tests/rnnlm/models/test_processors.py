"""Sampling with transformers' processors of logits: what they make of ours is what their definitions say."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rnnlm.models.hugging_face import RnnlmForCausalLM
from tests.rnnlm.conftest import Storyteller
from tests.rnnlm.models.references import logits_after

CUT = float("-inf")
EOS = 3
NEW = 8  # ids a sample
Formula = Callable[[Tensor, list[int], int], Tensor]  # logits (V,), text so far, its new ids → logits


def temperature(logits: Tensor, text: list[int], new: int) -> Tensor:
    return logits / 0.6


def top_k(logits: Tensor, text: list[int], new: int) -> Tensor:
    return logits.masked_fill(logits < logits.sort(descending=True).values[2], CUT)


def top_p(logits: Tensor, text: list[int], new: int) -> Tensor:
    return leading(logits, -logits, 0.8)


def leading(logits: Tensor, cost: Tensor, mass: float) -> Tensor:
    """Those of least cost, until together they have that much probability."""
    probabilities, kept, held = logits.softmax(dim=-1), torch.zeros(len(logits), dtype=torch.bool), 0.0
    for index in cost.argsort().tolist():
        if held < mass:
            kept[index] = True
            held += float(probabilities[index])
    return logits.masked_fill(~kept, CUT)


def min_p(logits: Tensor, text: list[int], new: int) -> Tensor:
    probabilities = logits.softmax(dim=-1)
    return logits.masked_fill(probabilities < 0.2 * probabilities.max(), CUT)


def typical_p(logits: Tensor, text: list[int], new: int) -> Tensor:
    probabilities = logits.softmax(dim=-1)
    entropy = -torch.xlogy(probabilities, probabilities).sum()
    return leading(logits, (-logits.log_softmax(dim=-1) - entropy).abs(), 0.7)


def epsilon_cutoff(logits: Tensor, text: list[int], new: int) -> Tensor:
    return logits.masked_fill(logits.softmax(dim=-1) < 0.05, CUT)


def eta_cutoff(logits: Tensor, text: list[int], new: int) -> Tensor:
    probabilities = logits.softmax(dim=-1)
    entropy = -torch.xlogy(probabilities, probabilities).sum()
    return logits.masked_fill(probabilities < min(0.05, 0.05**0.5 * torch.exp(-entropy)), CUT)


def repetition_penalty(logits: Tensor, text: list[int], new: int) -> Tensor:
    changed = logits.clone()
    for token_id in set(text):
        changed[token_id] = logits[token_id] * 1.7 if logits[token_id] < 0 else logits[token_id] / 1.7
    return changed


def no_repeat_ngram(logits: Tensor, text: list[int], new: int) -> Tensor:
    changed = logits.clone()
    changed[list(set(text))] = CUT  # n-grams of one token
    return changed


def min_new_tokens(logits: Tensor, text: list[int], new: int) -> Tensor:
    changed = logits.clone()
    if new < NEW:
        changed[EOS] = CUT
    return changed


def bad_words(logits: Tensor, text: list[int], new: int) -> Tensor:
    changed = logits.clone()
    changed[5] = CUT
    if text[-1] == 4:
        changed[6] = CUT
    return changed


def suppress(logits: Tensor, text: list[int], new: int) -> Tensor:
    changed = logits.clone()
    changed[[4, 8]] = CUT
    return changed


def begin_suppress(logits: Tensor, text: list[int], new: int) -> Tensor:
    return suppress(logits, text, new) if new == 0 else logits


def sequence_bias(logits: Tensor, text: list[int], new: int) -> Tensor:
    changed = logits.clone()
    changed[6] += 2.5
    return changed


def forced_end(logits: Tensor, text: list[int], new: int) -> Tensor:
    return torch.full_like(logits, CUT).index_fill(0, torch.tensor(EOS), 0.0) if new == NEW - 1 else logits


CASES: dict[str, tuple[dict[str, Any], Formula]] = {
    "temperature": ({"temperature": 0.6}, temperature),
    "top_k": ({"top_k": 3}, top_k),
    "top_p": ({"top_p": 0.8}, top_p),
    "min_p": ({"min_p": 0.2}, min_p),
    "typical_p": ({"typical_p": 0.7}, typical_p),
    "epsilon_cutoff": ({"epsilon_cutoff": 0.05}, epsilon_cutoff),
    "eta_cutoff": ({"eta_cutoff": 0.05}, eta_cutoff),
    "repetition_penalty": ({"repetition_penalty": 1.7}, repetition_penalty),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 1}, no_repeat_ngram),
    "min_new_tokens": ({"min_new_tokens": NEW}, min_new_tokens),
    "bad_words_ids": ({"bad_words_ids": [[5], [4, 6]]}, bad_words),
    "suppress_tokens": ({"suppress_tokens": [4, 8]}, suppress),
    "begin_suppress_tokens": ({"begin_suppress_tokens": [4, 8]}, begin_suppress),
    "sequence_bias": ({"sequence_bias": [[[6], 2.5]]}, sequence_bias),
    "forced_eos_token_id": ({"forced_eos_token_id": EOS}, forced_end),
}


@pytest.mark.parametrize("name", CASES)
def test_a_processor_does_to_carried_states_what_its_definition_says(storyteller: Storyteller, name: str) -> None:
    """At every step the logits that are drawn from, computed by hand from the whole text so far."""
    settings, formula = CASES[name]
    model = RnnlmForCausalLM.from_language_model(storyteller.network())
    changed = False
    for prompt in storyteller.prompts()[::2]:
        torch.manual_seed(4)
        found = model.generate(
            torch.tensor([prompt]),
            do_sample=True,
            max_new_tokens=NEW,
            return_dict_in_generate=True,
            output_scores=True,
            **{"top_k": 0} | settings,
        )
        text = found.sequences[0].tolist()
        for new, scores in enumerate(found.scores):
            so_far = text[: len(prompt) + new]
            logits = logits_after(model.language_model, so_far)
            expected = formula(logits, so_far, new).softmax(dim=-1)
            torch.testing.assert_close(scores[0].softmax(dim=-1), expected, atol=1e-4, rtol=1e-3)
            assert expected[text[len(prompt) + new]] > 0
            changed |= not torch.allclose(expected, logits.softmax(dim=-1), atol=1e-3)
    assert changed  # the case is one


def test_all_at_once_are_the_same_with_and_without_a_cache(storyteller: Storyteller) -> None:
    model = RnnlmForCausalLM.from_language_model(storyteller.network())
    settings = {
        "do_sample": True,
        "max_new_tokens": 12,
        "temperature": 1.3,
        "top_k": 20,
        "top_p": 0.95,
        "min_p": 0.01,
        "typical_p": 0.98,
        "repetition_penalty": 1.1,
        "no_repeat_ngram_size": 3,
        "min_new_tokens": 10,
        "bad_words_ids": [[5, 6]],
    }
    texts = []
    for prompt in storyteller.prompts():
        torch.manual_seed(11)
        carried = model.generate(torch.tensor([prompt]), **settings)
        torch.manual_seed(11)
        assert torch.equal(model.generate(torch.tensor([prompt]), use_cache=False, **settings), carried)
        texts.append(tuple(carried[0, len(prompt) :].tolist()))
    assert len(set(texts)) > 3
