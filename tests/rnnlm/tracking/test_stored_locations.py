"""An rnnlm home that was moved works at its new location. No file is written to the old location."""

import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rnnlm.registry.model_lookup import list_models
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import prepare_store
from tests.rnnlm.extensions.upkeep.registry_histories import register_night


def dump_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump())


def moved(home: Home, place: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(home.root, place)
    monkeypatch.setenv("RNNLM_HOME", str(place))
    return Home(place)


@pytest.mark.long
def test_a_moved_home_keeps_its_models_and_takes_new_ones(
    tracked_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    register_night(tracked_home, "rnnlm-a", "1", age_days=1)
    new = moved(tracked_home, tmp_path / "another ä" / "home", monkeypatch)
    with caplog.at_level(logging.WARNING):
        register_night(new, "rnnlm-a", "2", age_days=0)
    assert f"this home was at {tracked_home.root} before" in caplog.text
    assert not tracked_home.root.exists()
    assert str(tracked_home.root) not in dump_of(new.mlflow_database)
    assert [version.version for version in list_models(new)] == [2, 1]
    artifacts = sorted(new.artifacts.rglob("model.json"))
    assert len(artifacts) == 2


def test_a_home_reached_by_a_link_has_not_moved(
    tracked_home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tracked_home.root)
    prepare_store(tracked_home)
    before = dump_of(tracked_home.mlflow_database)
    caplog.clear()
    prepare_store(Home(link))
    assert dump_of(tracked_home.mlflow_database) == before
    assert caplog.text == ""
