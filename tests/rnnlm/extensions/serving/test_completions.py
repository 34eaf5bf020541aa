"""The service's completions API works with the `openai` package and with the harness's `local-completions` model."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from openai.types.completion_create_params import CompletionCreateParamsBase
from pydantic import BaseModel

from rnnlm.extensions.harness.recurrent_lm import RecurrentLM
from rnnlm.extensions.serving.completion_request import CompletionRequest
from rnnlm.extensions.serving.completions import Choice, Completion, StopText, Usage
from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.extensions.serving.text_scorer import score_text
from tests.rnnlm.extensions.serving.live_server import LiveServer, serving

TEXT = "the cat sees the dog near the river ."


@pytest.fixture(scope="module")
def live(toy_model: Path) -> Iterator[LiveServer]:
    with serving(toy_model) as live:
        yield live


@pytest.fixture(scope="module")
def client(live: LiveServer) -> openai.OpenAI:
    direct = httpx.Client(trust_env=False)  # A client that uses no proxy of the machine.
    return openai.OpenAI(base_url=f"{live.address}/v1", api_key="none", max_retries=0, http_client=direct)


def test_a_stream_joined_is_the_whole_answer(client: openai.OpenAI) -> None:
    settings: dict[str, Any] = {"model": "", "prompt": "the cat", "max_tokens": 9, "seed": 3, "n": 2, "echo": True}
    whole = client.completions.create(**settings, logprobs=2).choices
    for index, choice in enumerate(whole):
        parts = [part.choices[0] for part in client.completions.create(**settings, logprobs=2, stream=True)]
        own = [part for part in parts if part.index == index]
        assert "".join(part.text for part in own) == choice.text
        assert own[-1].finish_reason == choice.finish_reason
        assert choice.logprobs is not None
        tokens = [token for part in own if part.logprobs for token in part.logprobs.tokens or []]
        assert tokens == choice.logprobs.tokens


def test_a_text_ends_before_its_stop(client: openai.OpenAI) -> None:
    settings: dict[str, Any] = {"model": "", "prompt": "the cat", "max_tokens": 9, "temperature": 0.0}
    text = client.completions.create(**settings).choices[0].text
    stop = text.split()[2]
    for stream in (False, True):
        answer = client.completions.create(**settings, stop=["never", stop], stream=stream)
        parts = [part.choices[0] for part in answer] if stream else answer.choices
        assert "".join(part.text for part in parts) == text[: text.index(stop)]
        assert parts[-1].finish_reason == "stop"


NULLABLE = [
    *("model", "prompt", "max_tokens", "temperature", "top_p", "n", "seed", "stop", "stream", "echo", "logprobs"),
    *("suffix", "best_of", "frequency_penalty", "presence_penalty", "logit_bias", "stream_options", "user"),
]
GREEDY: dict[str, Any] = {"prompt": "the cat", "max_tokens": 5, "temperature": 0}


def text_of(live: LiveServer, **fields: Any) -> str:
    answer = live.client.post("/v1/completions", json=fields)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


@pytest.mark.parametrize(
    "fields",
    [
        *({name: None} for name in NULLABLE if name not in GREEDY),
        dict.fromkeys(name for name in NULLABLE if name not in GREEDY),
        {"stop": ""},
        {"stop": [""]},
        {"stop": []},
        {"max_tokens": 5.0, "n": 1.0, "best_of": 1.0, "seed": 3.0},
        {"frequency_penalty": 0.0, "presence_penalty": 0.0, "logit_bias": {}, "suffix": ""},
        {"logit_bias": {"10": 0}, "stream_options": {}, "user": "somebody", "something": "else"},
        {"stream_options": {"include_usage": None}},
    ],
    ids=str,
)
def test_what_clients_send_for_unset_fields_means_the_default(live: LiveServer, fields: dict[str, Any]) -> None:
    assert text_of(live, **GREEDY | fields) == text_of(live, **GREEDY)


def test_null_is_the_default_of_the_fields_that_a_text_rests_on(live: LiveServer) -> None:
    assert text_of(live, prompt=None, max_tokens=None, temperature=None, seed=1) == text_of(live, seed=1)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"logit_bias": {"10": -100}}, "logit_bias: expected 0: other numbers would change the text"),
        ({"frequency_penalty": 0.5}, "frequency_penalty: expected 0"),
        ({"presence_penalty": -2}, "presence_penalty: expected 0"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"max_tokens": 3.5}, "max_tokens"),
        ({"prompt": 5}, "prompt"),
        ({"model": "another"}, "another"),
    ],
    ids=str,
)
def test_what_would_change_the_text_is_refused(live: LiveServer, fields: dict[str, Any], told: str) -> None:
    answer = live.client.post("/v1/completions", json=GREEDY | fields)
    assert answer.status_code in (404, 422)
    assert told in str(answer.json()["error"])


REFERENCE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "serving.md"


def reference_rows(heading: str) -> list[list[str]]:
    """Return the cells of each row of the table below `heading` in docs/reference/serving.md."""
    table = REFERENCE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]


def test_the_reference_has_every_field_with_default_and_bounds() -> None:
    rows = {cells[0].strip("`"): cells for cells in reference_rows("Request")}
    fields, schema = CompletionRequest.model_fields, CompletionRequest.model_json_schema()["properties"]
    assert set(rows) == {*CompletionCreateParamsBase.__annotations__, "stream"} | set(fields)
    for name, (_, default, _, here) in rows.items():
        if name not in fields:
            assert (default, here) == ("none", "ignored")
            continue
        value = fields[name].default
        assert json.loads(default.strip("`")) == (value.model_dump() if isinstance(value, BaseModel) else value)
        bounded = [schema[name], *schema[name].get("anyOf", []), schema[name].get("additionalProperties", {})]
        for one in bounded:
            for bound in (one[key] for key in ("minimum", "maximum") if key in one):
                assert f"{bound:,f}".rstrip("0").rstrip(".") in here


def test_the_reference_has_every_field_of_an_answer() -> None:
    rows = {name: cells[1] for cells in reference_rows("Answer") for name in re.findall(r"`(\w+)`", cells[0])}
    left_out = {name for name, here in rows.items() if here == "left out"}
    assert set(rows) - {"completion_tokens_details", "prompt_tokens_details"} == set(
        openai.types.Completion.model_fields
    )
    assert set(Completion.model_fields) == set(openai.types.Completion.model_fields) - left_out
    assert set(Usage.model_fields) == set(openai.types.CompletionUsage.model_fields) - left_out
    for ours, theirs in ((Choice, "choices"), (Usage, "usage")):
        assert set(ours.model_fields) <= set(re.findall(r"`(\w+)`", rows[theirs]))


def test_a_stream_ends_with_its_usage_if_it_is_asked_for(client: openai.OpenAI) -> None:
    settings: dict[str, Any] = {"model": "", "prompt": "the cat", "max_tokens": 3, "seed": 1, "n": 2}
    whole = client.completions.create(**settings)
    parts = list(client.completions.create(**settings, stream=True, stream_options={"include_usage": True}))
    assert parts[-1].choices == []
    assert parts[-1].usage == whole.usage
    assert {part.usage for part in parts[:-1]} == {None}
    assert all(part.choices for part in client.completions.create(**settings, stream=True))


def test_a_served_model_is_found_by_its_names(client: openai.OpenAI) -> None:
    for model in client.models.list().data:
        assert client.models.retrieve(model.id).id == model.id
    with pytest.raises(openai.NotFoundError, match="not another"):
        client.models.retrieve("another")


def test_head_is_answered_wherever_get_is_without_a_body(live: LiveServer) -> None:
    for path in ("/", "/health", "/ready", "/model", "/metrics", "/docs", "/openapi.json", "/serve.js", "/v1/models"):
        got, asked = live.client.get(path), live.client.head(path)
        assert (got.status_code, asked.status_code, asked.content) == (200, 200, b"")
        assert asked.headers["content-type"] == got.headers["content-type"]
    assert live.client.head("/nothing").status_code == 404


def test_every_error_is_in_openai_s_form(live: LiveServer) -> None:
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/nothing"), ("GET", "/v1/completions")):
        answer = live.client.request(method, path)
        assert answer.status_code in (404, 405)
        assert answer.json()["error"]["message"] == answer.json()["detail"]
    answer = live.client.post("/v1/completions", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert live.client.get("/v1/models", headers={"Origin": "https://example.org"}).json()["error"]["message"]


def test_a_stop_that_spans_several_tokens_is_held_back() -> None:
    held = StopText(["abc", "x"])
    assert [held.add(part) for part in ("a", "b", "a", "bd", "ab")] == ["", "", "a", "ba", "bd"]
    assert (held.add("c?"), held.stopped) == ("", True)


def test_an_echoed_prompt_is_scored(client: openai.OpenAI, loaded: LoadedModel) -> None:
    answer = client.completions.create(model="", prompt=TEXT, echo=True, logprobs=3, max_tokens=0)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    # The prompt is scored without the <eos> that score_text() adds.
    expected = [-token.surprisal_nats for token in score_text(loaded, TEXT).tokens[:-1]]
    assert logprobs.token_logprobs == pytest.approx(expected, abs=1e-5)
    assert "".join(logprobs.tokens or []) == TEXT
    assert logprobs.top_logprobs is not None
    assert all(len(top) in (3, 4) for top in logprobs.top_logprobs)
    assert [
        TEXT[at:].startswith(token) for at, token in zip(logprobs.text_offset or [], logprobs.tokens or [], strict=True)
    ]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"model": "gpt-5"}, openai.NotFoundError, "see /v1/models"),
        ({"prompt": [10**6]}, openai.UnprocessableEntityError, "token ids must be below"),
        ({"n": 128, "prompt": ["a", "b"]}, openai.UnprocessableEntityError, "at most 128 choices"),
        ({"presence_penalty": 1.0}, openai.UnprocessableEntityError, "presence_penalty"),
        ({"max_tokens": 10**6}, openai.UnprocessableEntityError, "max_tokens"),
    ],
)
def test_a_wrong_request_is_refused(
    client: openai.OpenAI, live: LiveServer, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        client.completions.create(**{"model": "", "prompt": "a", "max_tokens": 4} | fields)
    assert not live.service.batcher.running


def test_an_empty_list_of_prompts_is_an_empty_prompt(client: openai.OpenAI) -> None:
    [choice] = client.completions.create(model="", prompt=[], max_tokens=3).choices
    assert choice.finish_reason is not None


@pytest.mark.long
def test_loglikelihoods_of_the_harness_equal_ours(
    live: LiveServer, toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    arguments = [("the cat sees", " the dog"), ("the", " bird likes the fox near the river ."), ("a dog", " the the")]
    requests = [Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(arguments)]
    ours = RecurrentLM(str(toy_model)).loglikelihood(requests)
    remote = LocalCompletionsAPI(
        model=str(toy_model),
        base_url=f"{live.address}/v1/completions",
        tokenizer=str(toy_model),
        tokenizer_backend="huggingface",
        max_length=512,
        batch_size=2,
    )
    found = remote.loglikelihood(requests)
    assert [value for value, _ in found] == pytest.approx([value for value, _ in ours], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in ours]
