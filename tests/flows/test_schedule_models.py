"""A schedule never uses the name of another source's registered model, even before that model is registered."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL

from flows.command_line import main
from flows.operations.prefect_query import PrefectQuery
from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.registry.registry_version import as_tags
from rnnlm.registry.version_tags import source_facts
from rnnlm.storage.home import Home, digest_of
from rnnlm.tracking.mlflow_store import reaching_mlflow

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrefectQuery]:
    address = PREFECT_API_URL.value()
    assert address is not None
    monkeypatch.setenv("PREFECT_API_URL", address)
    query = PrefectQuery(address)
    yield query
    for name, deployment in query.deployments().items():
        if "own-schedule" in deployment["tags"]:
            assert main(["unschedule", name]) == 0


def corpora(query: PrefectQuery) -> dict[str, dict[str, str]]:
    """Return the settings of each schedule's corpus, and the name of its model."""
    configs = {
        one["name"]: one["parameters"]["config"]
        for one in query.deployments().values()
        if "own-schedule" in one["tags"]
    }
    return {name: config["corpus"] | config.get("registry", {}) for name, config in configs.items()}


def test_a_schedule_of_another_source_has_a_model_of_its_own(
    tracked_home: Home, tmp_path: Path, query: PrefectQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    first, other, third = (tmp_path / place / "tickets" for place in ("a", "b", "c"))
    for folder in (first, other, third):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("a\n" * 300, encoding="utf-8")
    assert main(["schedule", "--corpus", str(first)]) == 0
    # The second call changes the schedule of the first one.
    assert main(["schedule", "--corpus", f"{first}/", "--cron", "0 3 * * *"]) == 0
    assert "model      rnnlm-tickets\n" in capsys.readouterr().out

    # The schedule is refused, although the first schedule has not registered its model yet.
    assert main(["schedule", "--corpus", str(other)]) == 2
    problem = capsys.readouterr().err
    assert len(problem.splitlines()) == 3
    assert f"rnnlm-tickets is the model of {first}, not of {other}" in problem
    assert "--name NAME" in problem
    assert "--set registry.model_name=rnnlm-tickets" in problem
    assert main(["schedule", "--corpus", str(other), "--name", "second"]) == 0
    assert "model      rnnlm-second\n" in capsys.readouterr().out

    # The first nightly run registers this model.
    with reaching_mlflow(tracked_home) as client:
        client.create_registered_model("rnnlm-tickets")
        facts = as_tags(source_facts(tracked_home, CorpusConfig(source=str(first))))
        client.create_model_version("rnnlm-tickets", "file:///none", tags=facts)
    assert main(["schedule", "--corpus", str(other)]) == 2
    assert main(["schedule", "--corpus", str(other), "--name", "second"]) == 0
    # The model names rnnlm-tickets and rnnlm-second are in use, so a digest is added.
    assert main(["schedule", "--corpus", str(third), "--name", "Second"]) == 0
    assert f"model      rnnlm-second-{digest_of(str(third))[:8]}\n" in capsys.readouterr().out
    assert {name: one for name, one in corpora(query).items() if name.lower() in ("tickets", "second")} == {
        "tickets": {"source": str(first)},
        "second": {"source": str(other), "name": "second"},
        "Second": {"source": str(third), "name": f"second-{digest_of(str(third))[:8]}"},
    }

    # A user may set the model's name if the text was only moved.
    assert main(["schedule", "--corpus", str(other), "--set", "registry.model_name=rnnlm-tickets"]) == 0
    assert corpora(query)["tickets"] == {"source": str(other), "model_name": "rnnlm-tickets"}


def test_a_schedule_takes_the_short_options_of_run(tracked_home: Home, tmp_path: Path, query: PrefectQuery) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("a\n" * 300, encoding="utf-8")
    options = ["--minutes", "7", "--hidden-size", "40", "--promote", "never"]
    assert main(["schedule", "--corpus", str(text), *options]) == 0
    [config] = [
        PipelineConfig.model_validate(one["parameters"]["config"])
        for one in query.deployments().values()
        if "own-schedule" in one["tags"]
    ]
    assert (config.training.minutes, config.model.hidden_size, config.registry.promote) == (7, 40, "never")
