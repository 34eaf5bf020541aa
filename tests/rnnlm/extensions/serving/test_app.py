"""The service responds to each request as documented. The tests use a real server on a loopback address."""

import html
import json
import re
import shlex
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from rnnlm.config import GenerationConfig
from rnnlm.extensions.serving.app import PAGE
from rnnlm.extensions.serving.messages import ExplainRequest, TextSums
from rnnlm.extensions.serving.model_loader import LoadedModel
from rnnlm.extensions.serving.text_scorer import explain_text
from rnnlm.generation.generate import continue_prompt
from rnnlm.models.model_factory import load_model
from rnnlm.storage.home import Home
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.tokenizers.text_tokenizer import EOS
from tests.conftest import Chain
from tests.rnnlm.extensions.serving.live_server import LiveServer, serving, wait_until

JSON = {"Content-Type": "application/json"}
TOKEN = "a token of the test's own"


@pytest.fixture(scope="module")
def live(toy_model: Path) -> Iterator[LiveServer]:
    with serving(toy_model) as live:
        yield live


def generated(live: LiveServer, **request: object) -> Any:
    answer = live.client.post("/generate", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def streamed(live: LiveServer, **request: object) -> list[Any]:
    with live.client.stream("POST", "/generate", json=request | {"stream": True}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = "".join(answer.iter_text()).split("\n\n")
    assert events.pop() == ""
    return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.long
def test_a_continuation_equals_that_of_the_command(live: LiveServer, toy_model: Path, loaded: LoadedModel) -> None:
    model = load_model(toy_model)
    for settings in ({"temperature": 0.0}, {"temperature": 1.0, "top_k": 5, "seed": 2}, {"top_p": 0.5}, {}):
        config = GenerationConfig.model_validate({"maximum_tokens": 9} | settings)
        for prompt in ("the cat", "", "a zebra sees"):
            answer = generated(live, prompt=prompt, maximum_tokens=9, **settings)
            assert answer["text"] == continue_prompt(model, loaded.tokenizer, prompt, config).text
            assert answer["unknown_words"] == loaded.tokenizer.unknown_words(prompt)
            assert answer["model"] == str(toy_model)


def test_a_stream_has_the_tokens_of_the_whole_answer(live: LiveServer) -> None:
    request = {"prompt": "the cat", "maximum_tokens": 12, "seed": 4, "temperature": 1.5, "alternatives": 3}
    whole = generated(live, **request)
    *tokens, last = streamed(live, **request)
    assert tokens == whole["tokens"]
    assert last == whole | {"tokens": []}
    assert "".join(token["text"] for token in tokens).strip() == whole["text"]
    assert all(len(token["alternatives"]) == 3 for token in tokens)
    assert whole["finish"] == ("end" if tokens[-1]["token_id"] == EOS else "length")


def test_texts_of_a_list_are_scored_as_if_alone(live: LiveServer) -> None:
    texts = ["the cat sees\nthe zebra", "", "the fox", "the cat sees the dog near the river .\n", "the fox"]
    scored = live.service.texts_scored
    answer = live.client.post("/score", json={"text": texts, "alternatives": 2})
    assert answer.status_code == 200, answer.text
    assert live.service.texts_scored == scored + 5
    alone = [live.client.post("/score", json={"text": text, "alternatives": 2}).json() for text in texts]
    # A list of texts gets exactly the same scores as each text alone.
    assert answer.json() == {"texts": alone}
    assert live.client.post("/score", json={"text": []}).json() == {"texts": []}


@pytest.mark.parametrize(
    ("texts", "index"),
    [
        (["a", 7, "b"], 1),
        (["a", "b", None], 2),
        (["a", ["b"]], 1),
        (["a", "b", "c" * 100_001], 2),
        (["a" * 60_000, "b" * 40_000, "c"], 2),  # All texts together exceed the limit of 100,000 characters.
    ],
)
def test_a_refusal_names_the_text_of_the_list(live: LiveServer, texts: list[object], index: int) -> None:
    answer = live.client.post("/score", json={"text": texts})
    assert answer.status_code == 422
    [problem] = answer.json()["detail"]
    assert index in problem["loc"] or f"text {index}:" in problem["msg"]


def test_a_text_is_explained_with_the_sums_of_its_score(live: LiveServer, loaded: LoadedModel) -> None:
    text = "the cat sees\nthe zebra"
    answer = live.client.post("/explain", json={"text": text, "alternatives": 2})
    assert answer.status_code == 200, answer.text
    expected = explain_text(loaded, ExplainRequest(text=text, alternatives=2))
    assert answer.json() == json.loads(expected.model_dump_json())
    explained, scored = answer.json(), live.client.post("/score", json={"text": text}).json()
    assert {name: explained[name] for name in TextSums.model_fields} == {
        name: scored[name] for name in TextSums.model_fields
    }
    for step, token in zip(explained["steps"], scored["tokens"], strict=True):
        assert all(step[name] == token[name] for name in ("token_id", "surprisal_nats", "start", "end"))
    assert [step["input_text"] for step in explained["steps"] if step["starts_row"]] == ["<bos>", "<bos>"]
    assert live.client.post("/explain", json={"text": ""}).json()["steps"] == []


def test_the_facts_about_a_model_come_from_its_run(
    live: LiveServer, toy_model: Path, chain_template: tuple[Home, Chain], endless_model: Path
) -> None:
    evaluation = EvaluationRecord.model_validate(chain_template[1]["evaluation"])
    facts = live.client.get("/model").json()
    assert facts == {
        "model": str(toy_model),
        "corpus": "toy",
        "corpus_bytes": None,  # The size is unknown, because the corpus is not in the service's rnnlm home.
        "tokenizer": "word",
        "vocabulary_size": live.service.current.tokenizer.vocabulary_size,
        "layers": 1,
        "hidden_size": 16,
        "weights": sum(weights.numel() for weights in load_model(toy_model).parameters()),
        "perplexity": evaluation.scores["test"].perplexity,
        "bits_per_byte": evaluation.scores["test"].bits_per_byte,
        "example_prompt": "the cat",
    }
    with serving(endless_model) as other:  # The model is in a folder without a run.
        unknown = other.client.get("/model").json()
    assert (unknown["perplexity"], unknown["bits_per_byte"], unknown["example_prompt"]) == (None, None, "")
    assert unknown["weights"] == facts["weights"]


def test_an_edited_evaluation_is_not_shown(toy_model: Path, tmp_path: Path) -> None:
    run = shutil.copytree(toy_model.parent, tmp_path / "run")
    text = (run / "evaluation.json").read_text()
    (run / "evaluation.json").write_text(text.replace('"perplexity": ', '"perplexity": 0'))
    with serving(run / "model") as live:
        facts = live.client.get("/model").json()
    assert (facts["perplexity"], facts["example_prompt"]) == (None, "the cat")


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/generate", "temperature", -0.1),
        ("/generate", "temperature", 1e-30),
        ("/generate", "temperature", "1"),
        ("/generate", "top_p", 0),
        ("/generate", "top_p", 5e-324),
        ("/generate", "maximum_tokens", 0),
        ("/generate", "maximum_tokens", 10**9),
        ("/generate", "seed", 2**63),
        ("/generate", "alternatives", 11),
        ("/generate", "prompt", "a" * 20_001),
        ("/generate", "temprature", 1.0),
        ("/score", "text", "a" * 100_001),
        ("/score", "text", 7),
        ("/explain", "text", "a" * 501),
    ],
)
def test_wrong_values_and_unknown_names_are_refused_by_name(
    live: LiveServer, path: str, field: str, value: object
) -> None:
    valid: dict[str, object] = {} if path == "/generate" else {"text": "a"}
    answer = live.client.post(path, json=valid | {field: value})
    assert answer.status_code == 422
    [problem] = answer.json()["detail"]
    assert field in str(problem)
    assert sorted(problem) == ["loc", "msg", "type"]  # The response does not repeat the input.


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{", JSON),
        (b"", JSON),
        (b"null", JSON),
        (b"[" * 100_000, JSON),
        (b'{"text": "\xff"}', JSON),
        (b'{"text": "\\ud800"}', JSON),
        (b'{"text": "a", "\\ud800": 1}', JSON),
        (b'{"text": ' + b"9" * 5_000 + b"}", JSON),
        (b'{"text": NaN}', JSON),
        # The request is refused, because a page of another site can send this content type without a preflight request.
        (b'{"text": "a"}', {"Content-Type": "text/plain"}),
        (b'{"text": "a"}', {}),
    ],
)
def test_malformed_json_is_refused(live: LiveServer, body: bytes, headers: dict[str, str]) -> None:
    answer = live.client.post("/score", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert "detail" in answer.json()


def test_a_body_that_is_too_large_is_not_read(live: LiveServer) -> None:
    large = b'{"text": "' + b"a" * (1 << 20) + b'"}'
    assert live.client.post("/score", content=large, headers=JSON).status_code == 413
    pieces = (large[first : first + 65_536] for first in range(0, len(large), 65_536))
    # The request has no Content-Length header, because its body is a generator.
    assert live.client.post("/score", content=pieces, headers=JSON).status_code == 413


def test_an_incomplete_request_times_out(toy_model: Path) -> None:
    with serving(toy_model, maximum_seconds=0.3) as live, socket.create_connection(("127.0.0.1", live.port)) as slow:
        slow.sendall(b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        slow.settimeout(10)
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "127.0.0.1.example.org:80", ""])
def test_foreign_host_names_are_refused(live: LiveServer, host: str) -> None:
    assert live.client.get("/ready", headers={"Host": host}).status_code == 400
    for own in ("localhost", f"127.0.0.1:{live.port}", "[::1]:8000"):
        assert live.client.get("/ready", headers={"Host": own}).status_code == 200


@pytest.mark.parametrize("path", ["/generate", "/score", "/ready"])
def test_pages_of_other_sites_are_refused(live: LiveServer, path: str) -> None:
    for foreign in ("https://example.org", f"http://example.org:{live.port}", "http://127.0.0.1:1", "null", "http://["):
        assert live.client.post(path, json={}, headers={"Origin": foreign}).status_code == 403
    for own in ("127.0.0.1", "localhost", "[::1]"):
        assert live.client.get("/ready", headers={"Origin": f"http://{own}:{live.port}"}).status_code == 200


@pytest.mark.long
def test_a_token_is_required(toy_model: Path) -> None:
    with serving(toy_model, token=TOKEN) as live:
        for header in (None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer é"):
            headers = {} if header is None else {"Authorization": header.encode("latin-1")}
            for method, path in (("POST", "/generate"), ("POST", "/explain"), ("GET", "/metrics"), ("GET", "/model")):
                answer = live.client.request(method, path, headers=headers)  # type: ignore[arg-type]
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert live.client.post("/generate", json={}, headers=right).status_code == 200
        for path in ("/health", "/ready", "/", "/docs", "/openapi.json"):
            assert live.client.get(path).status_code == 200
        assert TOKEN not in live.client.get("/openapi.json").text
        assert live.client.get("/openapi.json").json()["paths"]["/score"]["post"]["security"]


def test_a_full_queue_answers_503_with_retry_after(toy_model: Path) -> None:
    with serving(toy_model, maximum_running=1, maximum_waiting=0, maximum_seconds=5) as live:
        held = threading.Event()
        step = live.service.batcher._step
        live.service.batcher._step = lambda: (held.wait(10), step())[1]  # type: ignore[method-assign]
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(live.client.post, "/generate", json={"prompt": "the cat"})
            while not live.service.batcher.running:
                pass
            second = httpx.post(f"{live.address}/generate", json={}, trust_env=False)
            held.set()
            assert (second.status_code, second.headers["retry-after"]) == (503, "1")
            assert "wait" in second.json()["detail"]
            assert first.result().status_code == 200


@pytest.mark.long
def test_a_prompt_out_of_time_returns_what_is_written(endless_model: Path) -> None:
    with serving(endless_model, maximum_seconds=0.5) as live:
        slow_steps(live, 0.1)
        answer = live.client.post("/generate", json={"maximum_tokens": 2_000}).json()
    assert answer["finish"] == "time"
    assert 0 < len(answer["tokens"]) < 2_000


def test_a_client_that_leaves_a_stream_leaves_the_batch(endless_model: Path) -> None:
    with serving(endless_model) as live:
        slow_steps(live, 0.02)
        with live.client.stream("POST", "/generate", json={"maximum_tokens": 2_000, "stream": True}) as answer:
            next(answer.iter_bytes())
        wait_until(lambda: not live.service.batcher.running)
        assert live.service.batcher.tokens < 2_000


def slow_steps(live: LiveServer, seconds: float) -> None:
    """Delay each step of the model by `seconds`."""
    step = live.service.batcher._step

    def slow() -> None:
        time.sleep(seconds)
        step()

    live.service.batcher._step = slow  # type: ignore[method-assign]


def test_metrics_count_what_happened(toy_model: Path) -> None:
    with serving(toy_model) as live:
        tokens = len(generated(live, prompt="the cat")["tokens"])
        live.client.post("/score", json={"text": 7})
        live.client.get("/anything/else")
        answer = live.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    figures = dict(re.findall(r"^(rnnlm_\S+) (\S+)$", answer.text, re.MULTILINE))
    assert float(figures['rnnlm_requests_total{path="/generate",status="200"}']) == 1
    assert float(figures['rnnlm_requests_total{path="/score",status="422"}']) == 1
    assert float(figures['rnnlm_requests_total{path="other",status="404"}']) == 1
    assert float(figures["rnnlm_tokens_generated_total"]) == tokens
    assert float(figures['rnnlm_request_seconds_count{path="/generate"}']) == 1
    assert f'rnnlm_model{{model="{toy_model}"}} 1.0' in answer.text


def test_pages_load_nothing_from_other_hosts(live: LiveServer) -> None:
    for path in ("/", "/serve.js", "/docs"):
        answer = live.client.get(path)
        assert answer.status_code == 200
        assert not re.search(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", answer.text), path
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert (PAGE / "index.html").read_text().count("<script") == 1


def test_commands_name_the_requested_host_if_it_is_valid(toy_model: Path) -> None:
    """The API page shows commands with the request's Host header, but only if the header is valid."""
    with serving(toy_model, host="0.0.0.0", token=TOKEN) as live:
        for host, address in (
            ("lm.example.org:8443", "lm.example.org:8443"),
            ("a';reboot;'<b>", f"127.0.0.1:{live.port}"),
        ):
            text = live.client.get("/docs", headers={"Host": host}).text
            assert "<b>" not in text
            command = html.unescape(re.findall("<pre>(.+?)</pre>", text, re.DOTALL)[0])
            assert shlex.split(command)[2] == f"http://{address}/generate"


def test_health_and_readiness(live: LiveServer, toy_model: Path) -> None:
    assert live.client.get("/health").json() == {"status": "ok"}
    ready = live.client.get("/ready").json()
    assert (ready["status"], ready["model"]) == ("ready", str(toy_model))
    with serving(toy_model) as other:
        other.service.batcher.close()
        assert other.client.get("/ready").status_code == 503
