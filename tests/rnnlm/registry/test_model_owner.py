"""A registered model belongs to one source. Another source of the same name gets a separate registered model."""

import shutil
from itertools import combinations
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.corpora.corpus_names import corpus_name
from rnnlm.registry.model_lookup import find_version, registered_versions
from rnnlm.registry.model_owner import other_owner, own_corpus_name
from rnnlm.registry.registry_version import as_tags
from rnnlm.registry.starting_model import choose_start
from rnnlm.registry.version_tags import short_configuration, source_facts
from rnnlm.storage.home import Home, digest_of
from rnnlm.tracking.mlflow_store import ignoring, reaching_mlflow
from rnnlm.tracking.stored_locations import move_locations
from tests.configs import changed
from tests.registrar import Registrar

TICKETS = "rnnlm-tickets"


def config_of(source: str | Path, **settings: str) -> PipelineConfig:
    return changed(PipelineConfig(), {"corpus.source": str(source), **settings})


def add_version(home: Home, name: str, facts: dict[str, str]) -> None:
    with reaching_mlflow(home) as client:
        with ignoring("RESOURCE_ALREADY_EXISTS"):
            client.create_registered_model(name)
        client.create_model_version(name, f"{home.artifacts.as_uri()}/none", tags=as_tags(facts))


def register_night(home: Home, config: PipelineConfig, text: str = "") -> str:
    """Register a version as a nightly run does, and return the name of the registered model."""
    digest = digest_of(text or config.corpus.source)
    name = own_corpus_name(home, config, corpus_name(config.corpus), digest)
    model = config.registry.model_name or f"rnnlm-{name}"
    facts = {"corpus_digest": digest, "configuration": short_configuration(config)}
    add_version(home, model, facts | source_facts(home, config.corpus))
    return model


def folder_in(place: Path, name: str = "tickets") -> Path:
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.txt").write_text("a\n", encoding="utf-8")
    return folder


def test_of_two_folders_of_one_name_the_first_keeps_the_model(
    tracked_home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = config_of(folder_in(tmp_path / "a")), config_of(folder_in(tmp_path / "b"))
    assert register_night(tracked_home, first) == TICKETS
    assert caplog.messages == []
    other = register_night(tracked_home, second)
    assert other == f"{TICKETS}-{digest_of(str(tmp_path / 'b' / 'tickets'))[:8]}"
    [message] = caplog.messages
    assert f"{TICKETS} is the model of {tmp_path / 'a' / 'tickets'}; the model of this text is {other}" in message
    assert f"--set registry.model_name={TICKETS}" in message
    for _ in range(2):  # The name is the same in the first run and in every later run.
        assert register_night(tracked_home, first, "grown") == TICKETS
        assert register_night(tracked_home, second, "grown too") == other


SOURCES = (
    *("a/tickets", "b/tickets", "b/Tickets", "b/tickets.txt", "b/tickets.csv", "b/tickets.tar.gz", "b/tickets.zip"),
    *("b/tickets/*.txt", "b/tickets/*.csv", "hf:b/tickets", "hf:a/tickets", "hf:a/tickets:en"),
    *("https://a.org/tickets.txt", "https://b.org/tickets.txt", "https://b.org/tickets.txt.gz"),
    *("https://b.org/tickets?page=1", "https://b.org/tickets?page=2", "http://b.org/tickets", "https://tickets"),
    *("новости-2024.txt", "отзывы-2024.txt", "2024.txt", "c/новости-2024.txt", "😀.txt", "😃.txt", "c/😀.txt"),
    *("c++.txt", "c#.txt", "c.txt", f"{'x' * 64}.txt", f"{'x' * 65}.txt", f"d/{'x' * 64}.txt", "d.e/v1.5.txt", "v1-5"),
)


@pytest.mark.long
def test_no_two_sources_share_a_model(tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models = {source: register_night(tracked_home, config_of(source)) for source in SOURCES}
    assert [pair for pair in combinations(SOURCES, 2) if models[pair[0]] == models[pair[1]]] == []
    again = {source: register_night(tracked_home, config_of(source), f"{source} grown") for source in SOURCES}
    assert again == models


@pytest.mark.parametrize("spelling", ["tickets", "./tickets/", "../a/tickets", "link", "{place}/tickets"])
def test_a_folder_is_the_same_however_it_is_given(
    tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    place = tmp_path / "a"
    (tmp_path / "a").mkdir()
    (place / "link").symlink_to(folder_in(place))
    register_night(tracked_home, config_of(place / "tickets"))
    monkeypatch.chdir(place)
    config = config_of(spelling.format(place=place))
    assert other_owner(tracked_home, config, TICKETS) is None


def test_a_moved_folder_is_known_by_its_text_or_by_a_link(tracked_home: Home, tmp_path: Path) -> None:
    old = folder_in(tmp_path / "old")
    register_night(tracked_home, config_of(old), "text")
    moved = config_of(shutil.move(old, tmp_path / "tickets"))
    assert own_corpus_name(tracked_home, moved, "tickets", digest_of("text")) == "tickets"
    assert own_corpus_name(tracked_home, moved, "tickets", digest_of("grown")) != "tickets"
    old.symlink_to(tmp_path / "tickets")
    assert own_corpus_name(tracked_home, moved, "tickets", digest_of("grown")) == "tickets"


def test_a_moved_folder_keeps_its_model_if_somebody_says_so_once(tracked_home: Home, tmp_path: Path) -> None:
    register_night(tracked_home, config_of(folder_in(tmp_path / "old")), "text")
    moved = folder_in(tmp_path / "new")
    assert register_night(tracked_home, config_of(moved, **{"registry.model_name": TICKETS}), "grown") == TICKETS
    assert register_night(tracked_home, config_of(moved), "grown more") == TICKETS
    assert other_owner(tracked_home, config_of(folder_in(tmp_path / "other")), TICKETS) == str(moved)


def test_a_home_that_moved_with_its_text_knows_it(tracked_home: Home, tmp_path: Path) -> None:
    folder_in(tmp_path)
    register_night(tracked_home, config_of(tmp_path / "tickets"), "text")
    shutil.copytree(tmp_path, tmp_path / "copy")
    home = Home(tmp_path / "copy" / "home")
    move_locations(home.mlflow_database, tracked_home.root, home.root)
    assert other_owner(home, config_of(tmp_path / "copy" / "tickets"), TICKETS) is None


@pytest.mark.long
def test_models_of_rnnlm_03_belong_to_the_source_they_know(tracked_home: Home, tmp_path: Path) -> None:
    first, second = folder_in(tmp_path / "a"), folder_in(tmp_path / "b")
    # Only absolute paths identify an owner, because a relative path could refer to several sources.
    add_version(tracked_home, TICKETS, {"corpus_source": "tickets"})
    assert other_owner(tracked_home, config_of(second), TICKETS) is None
    # The first source registers a version of this model, and then the second source does.
    for folder in (first, second):
        add_version(tracked_home, TICKETS, {"corpus_source": str(folder), "configuration": "too long for a tag: see …"})
    assert other_owner(tracked_home, config_of(first), TICKETS) is None
    assert other_owner(tracked_home, config_of(second), TICKETS) == str(first)
    add_version(tracked_home, "rnnlm-foreign", {})
    assert other_owner(tracked_home, config_of(second), "rnnlm-foreign") is None


def test_a_secret_of_an_address_is_not_stored(tracked_home: Home) -> None:
    facts = source_facts(tracked_home, config_of("https://user:secret@b.org/tickets?key=signature").corpus)
    assert facts["corpus_source"].startswith("https://***@b.org/tickets?key=*** (")
    assert source_facts(tracked_home, config_of("https://user:other@b.org/tickets?key=signature").corpus) == facts


@pytest.mark.long
def test_registration_asks_once_more(register: Registrar, toy_folder: Path, tmp_path: Path) -> None:
    """Registration refuses a model of another source, even if the owner was unknown at the start of the run.

    MLflow may have been unavailable then, or the name may not have been used yet.
    """
    assert register().name == "rnnlm-toy"
    another = shutil.copytree(toy_folder, tmp_path / "other" / "toy")
    register.config = changed(register.config, {"corpus.source": str(another), "training.start_from": "champion"})
    register.dataset = register.dataset.model_copy(update={"corpus_digest": digest_of("another text")})
    (register.home.corpora / register.dataset.corpus_digest[:16]).mkdir()
    registered = register()
    assert registered.name == f"rnnlm-toy-{digest_of(str(another))[:8]}"
    assert (registered.version, registered.alias) == (1, "champion")
    champion = find_version(register.home, "rnnlm-toy", "champion", None)
    assert champion is not None
    assert champion.number == 1
    assert set(registered_versions(register.home, "rnnlm-toy")) == {1}
    dataset = register.dataset.model_copy(update={"corpus_name": registered.name.removeprefix("rnnlm-")})
    start = choose_start(register.home, register.config, dataset)
    assert start is not None
    assert start.name == registered.name
