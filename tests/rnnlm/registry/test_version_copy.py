"""A version can be promoted into another registry: another rnnlm home, a database, or a real MLflow server."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flows.command_line import main
from rnnlm.errors import ConfigError, ModelError, RnnlmError, TrackingError
from rnnlm.registry.lineage import show_version
from rnnlm.registry.model_lookup import list_models, model_folder, registered_versions
from rnnlm.registry.promotion_commands import roll_back
from rnnlm.registry.version_copy import promote_elsewhere
from rnnlm.reports.registry_page import lineage_report
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import embedded_uri
from rnnlm.trained_model import open_model
from tests.registrar import Registrar
from tests.tracking_server import TrackingServer

NAME = "rnnlm-toy"
pytestmark = pytest.mark.long


@pytest.fixture
def production(tmp_path: Path) -> Home:
    """Return a second rnnlm home, in which no model has been registered."""
    home = Home(tmp_path / "production, with spaces")
    home.make(home.root)
    return home


def test_a_version_becomes_champion_in_another_home(
    registered: Registrar, production: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(force=True)
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", embedded_uri(registered.home))
    change = promote_elsewhere(registered.home, NAME, "2", str(production.root), "passed the checks")
    assert os.environ["MLFLOW_REGISTRY_URI"] == embedded_uri(registered.home)
    assert "MLFLOW_TRACKING_URI" not in os.environ
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    assert (change.version, change.before, change.how, change.why) == (1, None, "hand", "passed the checks")
    assert [(one.version, one.aliases) for one in list_models(production)] == [(1, ("champion",))]
    # The aliases in the first registry are unchanged.
    assert [one.aliases for one in list_models(registered.home)] == [("challenger",), ("champion",)]
    here, there = registered_versions(registered.home, NAME)[2], registered_versions(production, NAME)[1]
    assert there.facts["promoted_from"].endswith(f"{NAME}/2")
    # The parent's version number is left out, because it means another version in the other registry.
    assert "parent_version" in here.facts
    assert not there.facts.keys() & {"parent_version", "evidence", "kept"}
    assert there.facts["model_sha256"] == here.facts["model_sha256"]
    assert there.source.startswith(production.root.as_uri())
    details = show_version(production, NAME, "1")
    assert details.decision == "champion: promoted by hand: passed the checks"
    assert details.parents == ()
    # The copy must work without the first home.
    text = "the cat sees the dog ."
    ours, copied = open_model(registered.home, f"{NAME}/2"), open_model(production, NAME)
    assert copied.score([text]).equals(ours.score([text]))
    assert model_folder(production, NAME).is_relative_to(production.root)


def test_a_version_is_copied_once_and_can_be_rolled_back_there(registered: Registrar, production: Home) -> None:
    registered(force=True)
    target = str(production.root)
    for version in ("1", "2"):
        promote_elsewhere(registered.home, NAME, version, target)
    with pytest.raises(ModelError, match="version 2: is already the champion in"):
        promote_elsewhere(registered.home, NAME, "2", target)
    assert roll_back(production, NAME).version == 1
    assert promote_elsewhere(registered.home, NAME, "@challenger", target).version == 2
    assert len(list_models(production)) == 2


def test_the_next_run_in_the_other_home_is_compared_with_the_copy(registered: Registrar, production: Home) -> None:
    promote_elsewhere(registered.home, NAME, "1", str(production.root))
    # The other home has read the same text, and trained the same model.
    shutil.copytree(registered.home.corpora, production.corpora)
    shutil.copytree(registered.run.folder, production.runs / registered.run.run_id)
    there = Registrar(
        production, registered.config, registered.dataset, registered.run, registered.evaluation, registered.samples
    )
    again = there(force=True)
    assert (again.version, again.alias) == (2, "challenger")
    assert "because it was trained on no newer text" in again.reason


@pytest.mark.parametrize(
    ("wanted", "target", "words"),
    [
        ("1", "here", "this is the current registry; leave out --to"),
        ("1", "no/such/folder", "expected the address of an MLflow server, or the folder of an rnnlm home"),
        ("1", "", "expected the address"),
        ("1", "other", "expected the address"),
        ("1", "link", "this is the current registry; leave out --to"),
        ("1", "what?", "must not contain"),
        ("1", "sqlite:////tmp/other.db", "expected an address such as http"),
        ("1", "ftp://mlflow.example.org", "expected an address such as http"),
        ("1", "http://127.0.0.1:0", "expected an address such as"),
        ("1", "http://user:secret@127.0.0.1:1", "failed"),
        ("7", "there", "no such version"),
        ("@challenger", "there", "no such version"),
    ],
)
def test_a_wrong_version_or_target_is_refused(
    wanted: str, target: str, words: str, registered: Registrar, production: Home
) -> None:
    (production.root.parent / "link").symlink_to(registered.home.root)
    place = {
        "here": str(registered.home.root),
        "link": str(production.root.parent / "link"),
        "there": str(production.root),
        "other": str(Path(__file__).parent),
    }.get(target, target)
    before = dict(os.environ)
    with pytest.raises((RnnlmError, TrackingError), match=words) as refused:
        promote_elsewhere(registered.home, NAME, wanted, place)
    assert "secret" not in str(refused.value)
    stores = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
    assert [os.environ.get(name) for name in stores] == [before.get(name) for name in stores]
    assert [one.aliases for one in list_models(registered.home)] == [("champion",)]


@pytest.mark.parametrize("killed_at", ["log_model_artifacts", "create_model_version", "set_registered_model_alias"])
def test_a_killed_promotion_is_completed_by_the_next_one(
    registered: Registrar, production: Home, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, killed_at, killed)
        with pytest.raises(Killed):
            promote_elsewhere(registered.home, NAME, "1", str(production.root), "first try")
    assert promote_elsewhere(registered.home, NAME, "1", str(production.root), "second try").why == "second try"
    assert [(one.version, one.aliases) for one in list_models(production)] == [(1, ("champion",))]
    assert show_version(production, NAME, "1").decision == "champion: promoted by hand: second try"


class Killed(BaseException):
    """An exception that simulates the end of a process. `except Exception` does not catch it."""


def killed(*arguments: object, **settings: object) -> None:
    raise Killed


def test_a_damaged_version_is_not_copied(registered: Registrar, production: Home) -> None:
    weights = model_folder(registered.home, NAME) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors.* writes the files again"):
        promote_elsewhere(registered.home, NAME, "1", str(production.root))
    assert not production.mlflow_database.exists()


def test_the_command_names_the_new_champion(
    registered: Registrar, production: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["promote", f"{NAME}@champion", "--to", str(production.root), "--reason", "release 7", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert f"{NAME}/1" in lineage_report(show_version(production, NAME, "1")).partition("copied")[2]
    assert (value["model_name"], value["model_version"], value["why"]) == (NAME, 1, "release 7")
    assert main(["promote", NAME, "--to", str(registered.home.root / "nowhere")]) == 2
    assert "expected the address of an MLflow server" in capsys.readouterr().err


@pytest.fixture
def server(tmp_path: Path, mlflow_template: Path) -> Iterator[str]:
    """Yield the address of a real MLflow server on the loopback interface."""
    server = TrackingServer(tmp_path / "server", mlflow_template)
    server.start()
    yield server.address
    server.stop()


@pytest.mark.slow
def test_a_version_is_copied_to_a_server_and_from_there(
    registered: Registrar, server: str, production: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = promote_elsewhere(registered.home, NAME, "1", server, "to staging")
    assert (change.version, change.why) == (1, "to staging")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    elsewhere = Home(production.root.with_name("a third home"))
    assert [one.aliases for one in list_models(elsewhere)] == [("champion",)]
    with pytest.raises(ConfigError, match="is this registry"):
        promote_elsewhere(elsewhere, NAME, "1", server)
    assert promote_elsewhere(elsewhere, NAME, "@champion", str(production.root), "to production").version == 1
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert open_model(production, NAME).perplexity("the cat sees the dog .\n") > 1
