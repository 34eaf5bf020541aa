"""transformers' generate() gives the same text as a slow reference implementation, for a trained model."""

from threading import Thread
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, TextIteratorStreamer, TextStreamer

from rnnlm.config import ModelKind
from rnnlm.extensions.exports.hugging_face import RnnlmForCausalLM
from tests.configs import KINDS, random_model
from tests.rnnlm.conftest import Storyteller
from tests.rnnlm.models.reference_generation import beam_search, greedy

MAXIMUM = 14  # The maximum number of new ids, which is enough for a sentence and its end.
EOS = 3


@pytest.fixture(scope="module")
def model(storyteller: Storyteller) -> RnnlmForCausalLM:
    return RnnlmForCausalLM.from_language_model(storyteller.network())


@pytest.fixture(scope="module")
def prompts(storyteller: Storyteller) -> list[list[int]]:
    return storyteller.prompts()


def new_ids(sequence: torch.Tensor, prompt_length: int, eos: int | None = EOS) -> list[int]:
    """Return the ids after the prompt up to and including `<eos>`, without the padding after it."""
    ids = sequence[prompt_length:].tolist()
    return ids[: ids.index(eos) + 1] if eos in ids else ids


def padded(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    """Return input_ids and attention_mask, padded on the left."""
    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def test_greedy_with_the_state_carried_is_greedy_from_scratch(
    model: RnnlmForCausalLM, prompts: list[list[int]]
) -> None:
    for prompt in prompts:
        expected = greedy(model.language_model, prompt, MAXIMUM, EOS)
        for use_cache in (True, False):
            found = model.generate(torch.tensor([prompt]), max_new_tokens=MAXIMUM, do_sample=False, use_cache=use_cache)
            assert new_ids(found[0], len(prompt)) == expected


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("width", [2, 3, 5])
def test_beam_search_equals_the_one_in_plain_lists(
    model: RnnlmForCausalLM, prompts: list[list[int]], width: int, penalty: float
) -> None:
    assert_beams(model, prompts[::3], width, penalty, eos=EOS)


def assert_beams(
    model: RnnlmForCausalLM, prompts: list[list[int]], width: int, penalty: float, eos: int | None, **settings: object
) -> None:
    """Assert that the beams, their order and their scores equal those of the slow reference."""
    for prompt in prompts:
        found = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=MAXIMUM,
            do_sample=False,
            num_beams=width,
            num_return_sequences=width,
            length_penalty=penalty,
            eos_token_id=eos,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        )
        expected = beam_search(model.language_model, prompt, width, MAXIMUM, eos, penalty)
        assert [new_ids(text, len(prompt), eos) for text in found.sequences] == [text for text, _ in expected]
        assert found.sequences_scores.tolist() == pytest.approx([score for _, score in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "beams"),
    [*((kind, 1) for kind in KINDS), ("lstm", 3), pytest.param("transformer", 3, marks=pytest.mark.long)],
)
def test_every_kind_generates_the_slow_ways_text_padded_on_the_left(kind: ModelKind, beams: int) -> None:
    """Every kind of model generates the same text as the slow reference, for prompts that are padded on the left.

    The weights are random, and the attention window is shorter than the text.
    """
    model = RnnlmForCausalLM.from_language_model(random_model(kind, 30))
    prompts = [[2, 5, 6, 7, 8], [2, 9], [2, 11, 12]]
    batch = padded(prompts)
    together = model.generate(**batch, max_new_tokens=MAXIMUM, do_sample=False, num_beams=beams)
    found = [new_ids(text, batch["input_ids"].shape[1]) for text in together]
    if beams == 1:
        assert found == [greedy(model.language_model, prompt, MAXIMUM, EOS) for prompt in prompts]
    else:
        best = (beam_search(model.language_model, prompt, beams, MAXIMUM, EOS, 1.0)[0] for prompt in prompts)
        assert found == [text for text, _ in best]
    assert len({tuple(text) for text in found}) > 1
    alone = model.generate(torch.tensor(prompts[1:2]), max_new_tokens=MAXIMUM, do_sample=False, num_beams=beams)
    assert new_ids(alone[0], 2) == found[1]


def test_streamed_text_equals_generated_text(
    storyteller: Storyteller, model: RnnlmForCausalLM, prompts: list[list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(storyteller.folder)
    ids = torch.tensor([prompts[-1]])
    settings = {"max_new_tokens": MAXIMUM, "do_sample": False}
    expected = tokenizer.decode(model.generate(ids, **settings)[0, ids.shape[1] :], skip_special_tokens=True)
    assert len(expected.split()) > 4

    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=300, skip_special_tokens=True)
    thread = Thread(target=model.generate, args=(ids,), kwargs={"streamer": streamer, **settings})
    thread.start()
    pieces = [piece for piece in streamer if piece]
    thread.join()
    assert "".join(pieces) == expected
    assert len(pieces) > 2

    printer = TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    model.generate(ids, streamer=printer, **settings)
    assert capsys.readouterr().out == expected + "\n"


PROCESSORS: dict[str, Any] = {
    "temperature": 0.6,
    "repetition_penalty": 1.7,
    "no_repeat_ngram_size": 1,
    "min_new_tokens": 8,
    "bad_words_ids": [[5], [4, 6]],
}


@pytest.mark.parametrize("names", [*([name] for name in PROCESSORS), ["temperature", "repetition_penalty"]])
def test_processors_see_the_whole_text_with_a_carried_state(
    model: RnnlmForCausalLM, prompts: list[list[int]], names: list[str]
) -> None:
    """Logits processors receive the whole text even with a carried state, so the scores equal those without a cache.

    Without a cache, every step reads all tokens. The scores depend on the processor.
    """
    plain = {"do_sample": True, "max_new_tokens": 8, "return_dict_in_generate": True, "output_scores": True, "top_k": 0}
    settings = {name: PROCESSORS[name] for name in names}
    differs = False
    for prompt in prompts[::2]:
        found = []
        for changes in (settings, {**settings, "use_cache": False}, {}):
            torch.manual_seed(4)
            found.append(model.generate(torch.tensor([prompt]), **plain | changes))
        carried, read_again, without = (torch.stack(one.scores).softmax(dim=-1) for one in found)
        torch.testing.assert_close(carried, read_again, atol=1e-4, rtol=1e-3)
        assert torch.equal(found[0].sequences, found[1].sequences)
        differs |= carried.shape != without.shape or not torch.allclose(carried, without, atol=1e-3)
    assert differs
