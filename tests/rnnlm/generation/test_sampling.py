"""The chosen token agrees with a calculation by hand. The state is carried from token to token."""

import pytest
import torch

from rnnlm.config import GenerationConfig
from rnnlm.generation.generate import continue_prompt
from rnnlm.generation.sampling import Continuation, Sampling, choose, truncated
from rnnlm.models.model_factory import load_model
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

LOGITS = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
CUT = float("-inf")
EOS = 3


def sample_next(logits: torch.Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    return choose(logits[None], [Continuation(sampling, generator)], EOS)[0]


def survivors(**settings: float) -> list[int]:
    return truncated(LOGITS, Sampling(**settings)).isfinite().nonzero().flatten().tolist()  # type: ignore[arg-type]


def test_top_k_and_top_p_by_hand() -> None:
    assert survivors() == [0, 1, 2, 3]
    assert survivors(top_k=2) == [0, 1]
    assert survivors(top_k=9) == [0, 1, 2, 3]
    assert survivors(top_p=0.45) == [0]  # The most probable token alone has a probability of 0.5.
    assert survivors(top_p=0.7) == [0, 1]
    assert survivors(top_p=0.76) == [0, 1, 2]
    assert survivors(top_k=9, top_p=0.5) == [0]  # The most probable token has exactly the probability 0.5.
    # After top-k, the probabilities sum to 0.9. Divided by 0.9, the cumulative probabilities are 0.56, 0.83 and 1.
    assert survivors(top_k=3, top_p=0.9) == [0, 1, 2]


@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("top_p", [0.3, 0.95])
def test_top_p_of_a_large_vocabulary_is_found_by_adding_up(spread: float, top_p: float) -> None:
    """Top-p keeps the same tokens of a large vocabulary as a loop that adds up the sorted probabilities.

    In some cases a few tokens have the probability top_p together, and in others most tokens are needed.
    """
    logits = torch.randn(5_000, generator=torch.Generator().manual_seed(1)) * spread
    probabilities = logits.double().softmax(dim=-1)
    expected, held = set(), 0.0
    for index in probabilities.argsort(descending=True).tolist():
        if held < top_p:
            expected.add(index)
            held += float(probabilities[index])
    left = truncated(logits, Sampling(top_p=top_p))
    found = set(left.isfinite().nonzero().flatten().tolist())
    assert len(found ^ expected) <= 1  # Because of rounding, the two sets may differ in one token.
    assert torch.equal(left[list(found)], logits[list(found)])
    assert (len(found) > 1_000) == (spread < 1)


def test_temperature_zero_is_greedy_and_draws_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert sample_next(LOGITS.flip(0), Sampling(temperature=0), generator) == 3
    assert torch.equal(generator.get_state(), before)


def test_draws_follow_the_softmax_at_their_temperature() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = [sample_next(LOGITS, Sampling(temperature=0.5), generator) for _ in range(2000)]
    share = 0.25 / (0.25 + 0.0625 + 0.0225 + 0.01)  # At temperature 0.5 the probabilities are squared and normalized.
    assert draws.count(0) / 2000 == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_excluded_token_leaves_the_odds_of_the_others(temperature: float) -> None:
    sampling = Sampling(temperature=temperature, excluded_id=0)
    generator = torch.Generator().manual_seed(0)
    before = LOGITS.clone()
    found = torch.tensor([sample_next(LOGITS, sampling, generator) for _ in range(4_000)])
    assert torch.equal(LOGITS, before)
    if temperature == 0.0:
        assert set(found.tolist()) == {1}
    else:
        shares = found.bincount(minlength=4) / len(found)
        assert shares.tolist() == pytest.approx([0.0, 0.5, 0.3, 0.2], abs=0.03)


def test_a_text_does_not_end_before_its_minimum() -> None:
    logits = torch.zeros(1, 8)
    logits[0, EOS] = 30.0  # This logit makes <eos> nearly certain.
    continuation = Continuation(Sampling(temperature=1.0, minimum_tokens=3), torch.Generator().manual_seed(0))
    for _ in range(4):
        continuation.ids += choose(logits, [continuation], EOS)
    assert EOS not in continuation.ids[:3]
    assert continuation.ids[3] == EOS


def test_a_seed_reproduces_and_another_does_not(toy_run: RunRecord) -> None:
    model, tokenizer = load_model(toy_run.model_folder), load_tokenizer(toy_run.model_folder)

    def text(seed: int) -> str:
        return continue_prompt(model, tokenizer, "the", GenerationConfig(seed=seed, temperature=1.5)).text

    assert text(1) == text(1)
    assert len({text(seed) for seed in range(5)}) > 1


def test_a_text_continues_past_line_ends_to_its_length(toy_run: RunRecord) -> None:
    model, tokenizer = load_model(toy_run.model_folder), load_tokenizer(toy_run.model_folder)
    config = GenerationConfig(temperature=0)
    short = continue_prompt(model, tokenizer, "the", config)
    lengths = {"minimum_tokens": short.tokens + 5, "maximum_tokens": short.tokens + 5}
    long = continue_prompt(model, tokenizer, "the", config.model_copy(update=lengths))
    assert (long.tokens, long.text.startswith(short.text)) == (short.tokens + 5, True)
    with pytest.raises(ValueError, match="minimum_tokens 9 must be at most maximum_tokens 8"):
        GenerationConfig(minimum_tokens=9, maximum_tokens=8)
