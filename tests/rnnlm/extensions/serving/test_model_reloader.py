"""The service loads each new champion. No request fails while the champion changes."""

import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from rnnlm.errors import ModelError
from rnnlm.extensions.serving import model_loader, model_reloader
from rnnlm.extensions.serving.model_loader import ModelReference, resolve_reference
from rnnlm.extensions.serving.model_reloader import ModelReloader
from rnnlm.extensions.serving.serving_config import ServingConfig
from rnnlm.models.model_factory import build_model, save_model
from rnnlm.registry.model_lookup import model_folder
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.built_once import built_once
from tests.configs import plain_model
from tests.conftest import Chain, copy_home, copy_store, home_in, toy_registrar
from tests.rnnlm.extensions.serving.live_server import LiveServer, wait_until

NAME = "rnnlm-toy"
Crown = Callable[[], int]


@pytest.fixture(scope="session")
def three_versions(
    tmp_path_factory: pytest.TempPathFactory, chain_template: tuple[Home, Chain], mlflow_template: Path
) -> Home:
    """Register versions 1, 2 and 3 of a small untrained model. No version is the champion."""

    def three_small_models(folder: Path) -> Home:
        with home_in(folder) as home:
            copy_store(home, mlflow_template)
            register = toy_registrar(home, chain_template)
            for seed in range(3):
                model = build_model(plain_model({"hidden_size": 8}), register.dataset.vocabulary_size, seed)
                save_model(model, register.run.model_folder)
                register()
            with reaching_mlflow(home) as client:
                client.delete_registered_model_alias(NAME, "champion")
            return home

    return built_once(tmp_path_factory, three_small_models)


@pytest.fixture
def crown(tracked_home: Home, three_versions: Home) -> Crown:
    """Return a function that registers a version, makes it the champion, and returns the version's number."""
    copy_home(three_versions, tracked_home)
    numbers = itertools.count(1)

    def make() -> int:
        number = next(numbers)
        with reaching_mlflow(tracked_home) as client:
            client.set_registered_model_alias(NAME, "champion", str(number))
        return number

    return make


@pytest.mark.long
def test_a_new_champion_takes_over_under_load_without_an_error(crown: Crown, tracked_home: Home) -> None:
    crown()
    ended = threading.Event()
    statuses: list[int] = []
    models: list[str] = []

    def ask(address: str, seed: int) -> None:
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            while not ended.is_set():
                seed += 1
                answer = client.post("/generate", json={"prompt": "the cat", "seed": seed, "maximum_tokens": 30})
                statuses.append(answer.status_code)
                models.append(answer.json()["model"])
                ended.wait(0.02)

    with LiveServer(resolve_reference(tracked_home, None), ServingConfig(poll_seconds=0.2)) as live:
        threads = [threading.Thread(target=ask, args=(live.address, 1_000 * n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for version in (2, 3):
            assert crown() == version
            wait_until(lambda version=version: models[-1:] == [f"models:/{NAME}/{version}"])
        ended.set()
        for thread in threads:
            thread.join()
        assert live.service.reloader.swaps == 2
    assert set(statuses) == {200}
    assert set(models) == {f"models:/{NAME}/{version}" for version in (1, 2, 3)}


@pytest.mark.long
def test_a_request_keeps_its_model_when_another_is_loaded(crown: Crown, tracked_home: Home) -> None:
    crown()
    with LiveServer(resolve_reference(tracked_home, NAME), ServingConfig(poll_seconds=1_000)) as live:
        reloader, batcher = live.service.reloader, live.service.batcher
        swap, step = threading.Event(), batcher._step
        batcher._step = lambda: (swap.wait(20), step())[1]  # type: ignore[method-assign]
        answers: list[Any] = []
        thread = threading.Thread(
            target=lambda: answers.append(live.client.post("/generate", json={"prompt": "the cat"}).json())
        )
        thread.start()
        wait_until(lambda: bool(batcher.running))
        crown()
        assert reloader.check()
        swap.set()
        thread.join()
        assert answers[0]["model"] == f"models:/{NAME}/1"
        assert live.client.post("/generate", json={}).json()["model"] == f"models:/{NAME}/2"
        assert not reloader.check()  # The alias has not moved, so nothing is loaded.


@pytest.mark.long
def test_the_model_stays_while_the_registry_is_unavailable(
    crown: Crown, tracked_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    crown()
    reloader = ModelReloader(resolve_reference(tracked_home, NAME), poll_seconds=0.01)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # No server listens on port 9 (discard).
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    reloader.start()
    wait_until(lambda: reloader.failures > 0)
    reloader.stop()
    assert reloader.current.label == f"models:/{NAME}/1"


@pytest.mark.long
def test_a_model_is_served_by_name_reference_or_folder(crown: Crown, tracked_home: Home, toy_run: RunRecord) -> None:
    crown()
    champion = ModelReference(tracked_home, name=NAME, alias="champion")
    for wanted in (None, NAME, f"models:/{NAME}@champion"):
        assert resolve_reference(tracked_home, wanted) == champion
    assert champion.label() == f"models:/{NAME}/1"
    by_number = resolve_reference(tracked_home, f"models:/{NAME}/1")
    assert by_number.folder is not None  # A version number never moves, so the model's folder is fixed.
    assert resolve_reference(tracked_home, toy_run.run_id).folder == toy_run.model_folder
    with pytest.raises(ModelError, match="no version has this alias"):
        resolve_reference(tracked_home, f"models:/{NAME}@nobody").label()
    with reaching_mlflow(tracked_home) as client:
        client.create_registered_model("another")
    with pytest.raises(ModelError, match="no-such-model"):
        resolve_reference(tracked_home, "no-such-model")


@pytest.mark.parametrize(
    "damage",
    [
        "model.safetensors",
        pytest.param("tokenizer.json", marks=pytest.mark.slow),
        pytest.param("config.json", marks=pytest.mark.slow),
    ],
)
@pytest.mark.long
def test_a_damaged_version_does_not_end_the_watch(crown: Crown, tracked_home: Home, damage: str) -> None:
    crown()
    with LiveServer(resolve_reference(tracked_home, NAME), ServingConfig(poll_seconds=0.2)) as live:
        ready = live.client.get("/ready").json()
        assert (ready["model"], ready["following_problem"]) == (f"models:/{NAME}/1", None)
        reloader = live.service.reloader
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(model_reloader, "load_served_model", damaging(damage))
            crown()
            wait_until(lambda: reloader.failures > 1)
            answer = live.client.get("/ready")
            assert answer.status_code == 200
            assert "checks in a row" in answer.json()["following_problem"]
            assert live.client.post("/generate", json={}).json()["model"] == f"models:/{NAME}/1"
        wait_until(lambda: reloader.swaps == 1)
        assert live.client.get("/ready").json() == ready | {"model": f"models:/{NAME}/2"}


def damaging(name: str) -> Callable[[Home, str], Any]:
    """Return a function that loads a copy of the model in which the file `name` is damaged."""

    def load(home: Home, label: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(model_folder(home, label), Path(folder) / "model")
            (copy / name).write_bytes(b'{"a": [1]}')
            return model_loader.load_served_model(home, str(copy))

    return load


@pytest.mark.long
def test_a_stopped_reloader_makes_the_service_unready(crown: Crown, tracked_home: Home) -> None:
    crown()
    with LiveServer(resolve_reference(tracked_home, NAME), ServingConfig(poll_seconds=0.2)) as live:
        live.service.reloader.stop()
        assert live.client.get("/ready").status_code == 503
