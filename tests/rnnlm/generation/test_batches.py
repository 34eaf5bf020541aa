"""The continuation of a prompt does not depend on the batch. The logits of each step equal those of the model."""

from dataclasses import replace

import pytest
import torch

from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import (
    Continuations,
    Sampling,
    choose,
    continue_batch,
    continue_ids,
    new_continuation,
)
from tests.configs import KINDS, new_model
from tests.rnnlm.conftest import Storyteller

EOS = 3


ELMAN: list[dict[str, object]] = [
    {"layers": 1, "nonlinearity": "tanh"},
    {"layers": 3, "tie_embeddings": True, "nonlinearity": "relu"},
    {"layers": 2, "tie_embeddings": True, "recurrence": "diagonal", "nonlinearity": "sigmoid"},
    {"layers": 3, "tie_embeddings": True, "recurrence": "diagonal", "residual": True, "nonlinearity": "tanh"},
]


@pytest.mark.parametrize("rows_in_products", [1, 2, 8])
@pytest.mark.parametrize(
    "settings", [*ELMAN, *({"kind": kind, "layers": 2} for kind in KINDS if kind != "elman")], ids=str
)
@torch.inference_mode()
def test_rows_that_come_and_go_are_read_as_whole_texts(settings: dict[str, object], rows_in_products: int) -> None:
    own = {"embedding_size": 8, "recurrent_initialization": "identity"} if "kind" not in settings else {}
    heads = {"heads": 2, "attention_window": 4}
    model = new_model(20, 12, **own, **heads, **settings)
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    stepper = InferenceWeights(model).stepper(rows_in_products)
    texts: list[list[int]] = []

    def check(logits: torch.Tensor, read: list[list[int]]) -> None:
        expected = torch.stack([model(torch.tensor([text]))[0][0, -1] for text in read])
        torch.testing.assert_close(logits, expected)
        assert logits[:, [0, 2]].isinf().all()  # <pad> and <bos> are never predicted.

    def join(text: list[int]) -> None:
        logits, state = stepper.read(text, None)
        stepper.join(state)
        texts.append(text)
        check(logits, [text])

    def step() -> None:
        for place, text in enumerate(texts):
            text.append(4 + (len(text) + place) % 16)
        check(stepper.step([text[-1] for text in texts]), texts)

    join([2, 5])
    join([2, 6, 7, 8])
    step()
    join([2])
    step()
    stepper.keep([2, 0])
    texts = [texts[2], texts[0]]
    step()
    step()
    stepper.keep([])
    texts = []
    join([2, 8])
    step()


def test_draws_are_those_of_multinomial() -> None:
    logits = torch.randn(3, 500, generator=torch.Generator().manual_seed(0))
    samplings = [Sampling(temperature=0.7, seed=seed) for seed in (5, 6, 7)]
    texts = [new_continuation([2], sampling) for sampling in samplings]
    for _ in range(50):
        states = [torch.Generator() for _ in texts]
        for mine, text in zip(states, texts, strict=True):
            mine.set_state(text.generator.get_state())
        expected = [
            int(torch.multinomial((row / 0.7).softmax(dim=-1), 1, generator=state))
            for row, state in zip(logits, states, strict=True)
        ]
        assert choose(logits, texts, EOS) == expected


def settings_of_all_kinds(count: int) -> list[Sampling]:
    """Return settings of greedy and of random sampling. Each has a different seed and length."""
    kinds = [
        Sampling(temperature=0),
        Sampling(temperature=1.2),
        Sampling(temperature=0.9, top_k=5),
        Sampling(temperature=1.0, top_p=0.8),
    ]
    return [replace(kinds[index % 4], seed=index, maximum_tokens=5 + 3 * index) for index in range(count)]


def test_a_batch_writes_what_each_prompt_gets_alone(storyteller: Storyteller) -> None:
    model, prompts = InferenceWeights(storyteller.model()), storyteller.prompts()
    samplings = settings_of_all_kinds(len(prompts))
    alone = [continue_ids(model, prompt, own, EOS) for prompt, own in zip(prompts, samplings, strict=True)]
    assert continue_batch(model, prompts, samplings, EOS) == alone
    assert len({len(prompt) for prompt in prompts}) > 2
    assert len({len(ids) for ids in alone}) > 2
    # Some continuations end with <eos>, and others at their maximum length.
    assert {ids[-1] == EOS for ids in alone} == {True, False}
    backwards = continue_batch(model, prompts[::-1], samplings[::-1], EOS)
    assert backwards[::-1] == alone


@torch.inference_mode()
def test_a_prompt_that_comes_later_changes_nothing(storyteller: Storyteller) -> None:
    model, prompts = InferenceWeights(storyteller.model()), storyteller.prompts()
    samplings = settings_of_all_kinds(len(prompts))
    alone = continue_batch(model, prompts, samplings, EOS)
    continuations, every = Continuations(model, EOS), []
    for prompt, sampling in zip(prompts, samplings, strict=True):
        every.append(continuations.add(prompt, sampling))
        if continuations.running:
            continuations.step()
    while continuations.running:
        continuations.step()
    assert [continuation.ids for continuation in every] == alone
    assert all(continuation.done for continuation in every)


@torch.inference_mode()
def test_with_eight_rows_in_products_batches_are_bit_identical() -> None:
    """A prompt has bit-identical logits in a batch and alone if each matrix product has eight rows.

    At this model size, the products of one row and of many rows would otherwise differ in some bits.
    """
    model = new_model(5_000, 128)
    for parameter in model.parameters():
        parameter.normal_(0, 0.2, generator=torch.Generator().manual_seed(3))
    weights, sampling = InferenceWeights(model), Sampling(maximum_tokens=6, temperature=1.0)

    def told(prompts: list[list[int]]) -> list[torch.Tensor]:
        """Return each prompt's logits when all prompts are continued together."""
        continuations = Continuations(weights, -1, rows_in_products=8)
        found: dict[int, list[torch.Tensor]] = {}
        every = []
        for seed, prompt in enumerate(prompts):
            notice = lambda text, logits: found.setdefault(id(text), []).append(logits.clone())  # noqa: E731
            every.append(
                new_continuation(prompt, replace(sampling, seed=prompt[-1], maximum_tokens=4 + seed % 3), notice)
            )
            continuations.read(every[-1])
            if seed % 2 and continuations.running:
                continuations.step()
        while continuations.running:
            continuations.step()
        return [torch.stack(found[id(text)]) for text in every]

    prompts = [[2, 40 + n, 100 + n] for n in range(19)]
    for prompt, together in zip(prompts, told(prompts), strict=True):
        (alone,) = told([prompt])
        shared = min(len(alone), len(together))
        assert torch.equal(alone[:shared], together[:shared])
