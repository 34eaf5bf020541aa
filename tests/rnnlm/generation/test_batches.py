"""Several prompts at once, each as it would be alone; and a step that computes what the model computes."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from rnnlm.config import ModelKind, Nonlinearity
from rnnlm.generation.inference_weights import ElmanStepper, InferenceWeights
from rnnlm.generation.sampling import (
    Continuation,
    Continuations,
    Sampling,
    choose,
    continue_batch,
    continue_ids,
    new_continuation,
)
from rnnlm.models.language_model import LanguageModel
from tests.configs import new_model
from tests.rnnlm.conftest import Storyteller
from tests.rnnlm.models.references import greedy
from tests.slow_reading import log_probabilities_of

EOS = 3


def network(
    layers: int = 1,
    nonlinearity: Nonlinearity = "tanh",
    tied: bool = False,
    diagonal: bool = False,
    residual: bool = False,
) -> LanguageModel:
    model = new_model(
        20,
        12,
        embedding_size=8,
        layers=layers,
        nonlinearity=nonlinearity,
        tie_embeddings=tied,
        recurrence="diagonal" if diagonal else "full",
        recurrent_initialization="identity",
        residual=residual,
    )
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def started(stepper: ElmanStepper, prompt_ids: list[int]) -> torch.Tensor:
    """A row that has read a prompt; the logits after it."""
    logits, state = stepper.read(prompt_ids, None)
    stepper.join(state)
    return logits


@pytest.mark.parametrize("rows_in_products", [1, 2, 8])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize(
    ("layers", "tied", "diagonal", "residual"),
    [(1, False, False, False), (3, True, False, False), (2, True, True, False), (3, True, True, True)],
)
def test_steps_of_rows_that_come_and_go_are_one_long_forward(
    layers: int, tied: bool, diagonal: bool, residual: bool, nonlinearity: Nonlinearity, rows_in_products: int
) -> None:
    model = network(layers, nonlinearity, tied, diagonal, residual)
    stepper = ElmanStepper(InferenceWeights(model), rows_in_products)

    def check(logits: torch.Tensor, *texts: list[int]) -> None:
        expected = torch.stack([model(torch.tensor([text]))[0][0, -1] for text in texts])
        torch.testing.assert_close(logits, expected)
        assert logits[:, [0, 2]].isinf().all()  # <pad> and <bos> are never predicted

    with torch.inference_mode():
        check(started(stepper, [2, 5]), [2, 5])
        check(started(stepper, [2, 6, 7, 8]), [2, 6, 7, 8])
        check(stepper.step([9, 10]), [2, 5, 9], [2, 6, 7, 8, 10])
        check(started(stepper, [2]), [2])
        check(stepper.step([11, 12, 13]), [2, 5, 9, 11], [2, 6, 7, 8, 10, 12], [2, 13])
        stepper.keep([2, 0])
        check(stepper.step([4, 5]), [2, 13, 4], [2, 5, 9, 11, 5])
        check(stepper.step([6, 7]), [2, 13, 4, 6], [2, 5, 9, 11, 5, 7])
        stepper.keep([])
        check(started(stepper, [2, 8]), [2, 8])


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


def test_greedy_is_greedy_from_scratch(storyteller: Storyteller) -> None:
    model = storyteller.model()
    for prompt in storyteller.prompts():
        found = continue_ids(InferenceWeights(model), prompt, Sampling(maximum_tokens=14, temperature=0), EOS)
        assert found == greedy(model, prompt, 14, EOS)


@pytest.mark.parametrize("kind", get_args(ModelKind))
@torch.inference_mode()
def test_rows_of_every_kind_come_and_go(kind: ModelKind) -> None:
    """Each is continued as its whole text would be, however many there are beside it."""
    settings = {"attention_window": 4} if kind == "transformer" else {}
    model = new_model(20, 8, kind=kind, layers=2, **settings)
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    stepper = InferenceWeights(model).stepper(rows_in_products=8)
    texts = [[2, 5], [2, 6, 7, 8], [2], [2, 9, 4, 11, 12, 13]]
    for text in texts:
        stepper.join(stepper.read(text, None)[1])
    for token_ids in ([9, 10, 11, 12], [4, 5, 6]):
        texts = [[*text, token_id] for text, token_id in zip(texts, token_ids, strict=False)]
        expected = torch.stack([model(torch.tensor([text]))[0][0, -1] for text in texts])
        torch.testing.assert_close(stepper.step(token_ids), expected)
        stepper.keep([2, 0, 1])
        texts = [texts[row] for row in (2, 0, 1)]


def settings_of_all_kinds(count: int) -> list[Sampling]:
    """Greedy ones among drawn ones, each with its own seed and its own length."""
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
    assert {ids[-1] == EOS for ids in alone} == {True, False}  # some end by themselves, some at their length
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
def test_a_prompt_read_in_pieces_is_read(storyteller: Storyteller, monkeypatch: pytest.MonkeyPatch) -> None:
    model = InferenceWeights(storyteller.model())
    prompt, sampling = max(storyteller.prompts(), key=len), Sampling(maximum_tokens=12, temperature=1.0, seed=4)
    expected = continue_ids(model, prompt, sampling, EOS)
    monkeypatch.setattr("rnnlm.generation.sampling.PROMPT_PIECE_TOKENS", 2)
    continuations, continuation = Continuations(model, EOS), new_continuation(prompt, sampling)
    pieces = 0
    while continuation.unread:
        assert continuations.running == []  # only at its end it joins
        continuations.read(continuation)
        pieces += 1
    assert pieces == -(-len(prompt) // 2) > 1
    while continuations.running:
        continuations.step()
    assert continuation.ids == expected


@torch.inference_mode()
def test_a_callback_sees_each_token_and_may_stop(storyteller: Storyteller) -> None:
    model, prompts = InferenceWeights(storyteller.model()), storyteller.prompts()
    sampling = Sampling(maximum_tokens=9, temperature=1.5, top_k=3, seed=1)
    expected = continue_batch(model, prompts, [sampling] * len(prompts), EOS)
    seen: dict[int, list[torch.Tensor]] = {}

    def notice(continuation: Continuation, logits: torch.Tensor) -> None:
        seen.setdefault(id(continuation), []).append(logits.clone())
        if len(continuation.ids) == 4:
            continuation.done = True

    continuations = Continuations(model, EOS)
    every = [new_continuation(prompt, sampling, notice) for prompt in prompts]
    for continuation in every:
        continuations.read(continuation)
    while continuations.running:
        continuations.step()
    for prompt, continuation, ids in zip(prompts, every, expected, strict=True):
        assert continuation.ids == ids[:4]
        read = log_probabilities_of(model.model, prompt + continuation.ids[:-1])[len(prompt) - 1 :]
        torch.testing.assert_close(torch.stack(seen[id(continuation)]), read, rtol=1e-5, atol=1e-4)  # before sampling


@torch.inference_mode()
def test_with_eight_rows_in_products_company_does_not_change_a_bit() -> None:
    """At a size where products of one and of many rows do differ."""
    model = new_model(5_000, 128)
    for parameter in model.parameters():
        parameter.normal_(0, 0.2, generator=torch.Generator().manual_seed(3))
    weights, sampling = InferenceWeights(model), Sampling(maximum_tokens=6, temperature=1.0)

    def told(prompts: list[list[int]]) -> list[torch.Tensor]:
        """All logits of each prompt, continued together."""
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


def test_a_stream_gives_each_token_as_soon_as_it_is_chosen(
    storyteller: Storyteller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is computed when it is asked for, and none after the last."""
    model, prompt = InferenceWeights(storyteller.model()), storyteller.prompts()[0]
    sampling = Sampling(maximum_tokens=4, temperature=0)
    expected = continue_ids(model, prompt, sampling, EOS)
    steps: list[int] = []
    step = ElmanStepper.step

    def counted(self: ElmanStepper, token_ids: list[int]) -> torch.Tensor:
        steps.extend(token_ids)
        return step(self, token_ids)

    monkeypatch.setattr(ElmanStepper, "step", counted)
    with torch.inference_mode():
        continuations = Continuations(model, EOS)
        continuation = continuations.add(prompt, sampling)
        for count in range(4):
            assert continuation.ids == expected[: count + 1]
            assert steps == expected[:count]
            if count < 3:
                continuations.step()
    assert continuation.done


def test_weights_laid_out_once_serve_many_texts(storyteller: Storyteller) -> None:
    model, prompts = storyteller.model(), storyteller.prompts()
    weights, sampling = InferenceWeights(model), Sampling(maximum_tokens=12, temperature=0)
    with torch.inference_mode():
        Continuations(weights, EOS).add(prompts[0], sampling)  # given up in the middle
    found = [continue_ids(weights, prompt, sampling, EOS) for prompt in prompts]
    assert found == [continue_ids(InferenceWeights(model), prompt, sampling, EOS) for prompt in prompts]


def test_nothing_is_written_where_nothing_may_be(storyteller: Storyteller) -> None:
    model, prompts = InferenceWeights(storyteller.model()), storyteller.prompts()
    samplings = [Sampling(maximum_tokens=0), Sampling(maximum_tokens=1, temperature=0)]
    first = greedy(storyteller.model(), prompts[1], 1, EOS)
    assert continue_batch(model, prompts[:2], samplings, EOS) == [[], first]
    assert continue_batch(model, [], [], EOS) == []
