"""The text that is generated for a prompt does not depend on the other prompts in the batch."""

import dataclasses
import queue
import time
from collections.abc import Iterator

import pytest
import torch

from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.extensions.serving.request_batcher import Batcher, BusyError, GenerationJob, SampledToken
from rnnlm.generation.sampling import Sampling, continue_ids
from tests.configs import new_model

FOREVER = time.monotonic() + 1e6
PROMPTS = ["", "the cat", "the dog sees the fox", "near the river . the", "zebra", "the bird likes the cat near the"]


class Asked:
    """A submitted prompt, with the events that the batcher has sent for it."""

    def __init__(
        self, batcher: Batcher, loaded: LoadedModel, prompt: str, sampling: Sampling, deadline: float = FOREVER
    ) -> None:
        self.events: queue.Queue[object] = queue.Queue()
        self.ids = [loaded.tokenizer.bos_id, *loaded.tokenizer.encode(prompt)]
        self.job = GenerationJob(loaded, self.ids, sampling, 3, deadline, self.events.put)
        batcher.submit(self.job)

    def all(self) -> list[object]:
        """Return all events. The last event is the end of the text."""
        found: list[object] = []
        while not found or isinstance(found[-1], SampledToken):
            found.append(self.events.get(timeout=20))
        return found

    def drawn(self) -> list[SampledToken]:
        return [event for event in self.all() if isinstance(event, SampledToken)]


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    batcher = Batcher(maximum_running=16, maximum_waiting=64)
    batcher.start()
    yield batcher
    batcher.close()


def samplings(count: int) -> list[Sampling]:
    return [
        Sampling(maximum_tokens=5 + 3 * n % 17, temperature=0.5 + n % 4, top_k=n % 3 * 7, top_p=1 - n % 2 * 0.2, seed=n)
        for n in range(count)
    ]


def test_more_alternatives_than_tokens_are_all_tokens(loaded: LoadedModel, batcher: Batcher) -> None:
    """All tokens are returned if more alternatives are requested than the vocabulary has tokens.

    An error would end all generations in the batch.
    """
    events: queue.Queue[object] = queue.Queue()
    prompt_ids = [loaded.tokenizer.bos_id]
    batcher.submit(GenerationJob(loaded, prompt_ids, samplings(1)[0], 10**6, time.monotonic() + 60, events.put))
    first = events.get(timeout=20)
    assert isinstance(first, SampledToken)
    assert len(first.alternatives) == loaded.tokenizer.vocabulary_size


def test_a_prompt_gets_the_same_bits_alone_and_in_any_company(loaded: LoadedModel, batcher: Batcher) -> None:
    asked = [(PROMPTS[n % len(PROMPTS)], sampling) for n, sampling in enumerate(samplings(30))]
    alone = [Asked(batcher, loaded, prompt, sampling).all() for prompt, sampling in asked]
    together = [Asked(batcher, loaded, prompt, sampling) for prompt, sampling in asked]
    # The surprisals and alternatives in the events are equal in every bit.
    assert [one.all() for one in together] == alone


def test_a_batched_prompt_gets_the_tokens_of_the_single_loop(loaded: LoadedModel, batcher: Batcher) -> None:
    for prompt, sampling in zip(PROMPTS, samplings(len(PROMPTS)), strict=True):
        one = Asked(batcher, loaded, prompt, sampling)
        single = continue_ids(loaded.weights, one.ids, sampling, loaded.tokenizer.eos_id)
        assert [event.token_id for event in one.drawn()] == single


def test_a_prompt_read_in_pieces_is_read(
    loaded: LoadedModel, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rnnlm.generation.sampling.PROMPT_PIECE_TOKENS", 2)
    sampling = Sampling(maximum_tokens=8, temperature=1.0, seed=5)
    one = Asked(batcher, loaded, PROMPTS[-1], sampling)
    single = continue_ids(loaded.weights, one.ids, sampling, loaded.tokenizer.eos_id)
    assert [event.token_id for event in one.drawn()] == single


def test_a_full_queue_refuses(loaded: LoadedModel) -> None:
    # The batcher is not started, so no prompt leaves the queue.
    batcher = Batcher(maximum_running=1, maximum_waiting=1)
    for _ in range(2):
        Asked(batcher, loaded, "", Sampling())
    with pytest.raises(BusyError, match="are waiting already"):
        Asked(batcher, loaded, "", Sampling())


def test_a_prompt_past_its_deadline_ends(loaded: LoadedModel, batcher: Batcher) -> None:
    assert Asked(batcher, loaded, "the cat", Sampling(), deadline=time.monotonic() - 1).all() == ["time"]


def test_a_client_that_leaves_makes_room(loaded: LoadedModel, endless: LoadedModel) -> None:
    batcher = Batcher(maximum_running=1, maximum_waiting=1)
    batcher.start()
    leaving = Asked(batcher, endless, "", Sampling(maximum_tokens=10**9))
    assert isinstance(leaving.events.get(timeout=20), SampledToken)
    leaving.job.over = True
    other = Asked(batcher, loaded, "the cat", Sampling(maximum_tokens=3))
    assert other.all()[-1] in ("end", "length")
    batcher.close()


def test_a_failure_is_reported_and_the_other_prompts_continue(loaded: LoadedModel) -> None:
    batcher = Batcher(maximum_running=2, maximum_waiting=0)
    broken = Asked(batcher, loaded, "", Sampling())
    broken.job.continuation.unread = [10**6]  # The vocabulary has no token with this id, so the model's step fails.
    one = Asked(batcher, loaded, "the cat", Sampling(maximum_tokens=3))
    batcher.start()
    assert isinstance(broken.all()[-1], IndexError)
    assert one.all()[-1] in ("end", "length")
    batcher.close()


def test_each_prompt_keeps_its_model(loaded: LoadedModel, batcher: Batcher) -> None:
    other = dataclasses.replace(loaded, model=new_model(loaded.tokenizer.vocabulary_size, 4).eval())
    for weight in other.model.parameters():
        torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(1))
    sampling = Sampling(maximum_tokens=9, temperature=1.0, seed=2)
    asked = [Asked(batcher, which, "the cat", sampling) for which in (loaded, other, loaded, other)]
    for one in asked:
        single = continue_ids(one.job.loaded.weights, one.ids, sampling, loaded.tokenizer.eos_id)
        assert [event.token_id for event in one.drawn()] == single


def test_closing_ends_waiting_prompts_with_an_error(loaded: LoadedModel) -> None:
    batcher = Batcher(maximum_running=1, maximum_waiting=5)
    left = Asked(batcher, loaded, "", Sampling(maximum_tokens=10**6))
    batcher.close()  # The prompts were never started, so no tokens were drawn.
    batcher._run()
    assert isinstance(left.all()[-1], BusyError)
    with pytest.raises(BusyError, match="shutting down"):
        batcher.submit(left.job)
