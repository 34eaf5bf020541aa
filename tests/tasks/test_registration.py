from pathlib import Path

import pytest
from prefect.states import Failed

from rnnlm.config import GenerationConfig
from rnnlm.errors import ModelError, TrackingError
from rnnlm.extensions.scoring.bulk_scoring import ScoringRecord, Totals
from rnnlm.extensions.scoring.drift import Distributions, Drift, drift_events
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.registry.model_lookup import list_models
from tasks.evaluation import sample_run
from tasks.registration import (
    is_tracking_failure,
    raise_events,
    register_run,
    sample_champion,
)
from tests.registrar import Registrar
from tests.tasks.drift_events import awaited_drift_events


@pytest.mark.long
# The fixture makes the test faster, because its template's bundle was already checked.
@pytest.mark.usefixtures("registry_template")
def test_the_first_version_of_a_text_is_champion(register: Registrar) -> None:
    arguments = (register.config, register.dataset, register.run, register.evaluation, register.samples)
    version = register_run.fn(*arguments)
    assert (version.name, version.version, version.alias) == ("rnnlm-toy", 1, "champion")
    assert (version.uri, version.evidence, version.skipped) == ("models:/rnnlm-toy@champion", None, False)
    again = register_run.fn(*arguments)
    assert (again.version, again.skipped) == (1, True)
    (listed,) = list_models(register.home)
    assert listed.test_perplexity == register.evaluation.scores["test"].perplexity
    assert listed.dataset_id == register.dataset.dataset_id


@pytest.mark.long
def test_samples_of_the_champion_are_those_of_its_run(registered: Registrar) -> None:
    config = GenerationConfig(prompts=("the cat",), maximum_tokens=5, seed=3)
    of_champion = sample_champion.fn("rnnlm-toy", config)
    assert of_champion.samples == sample_run.fn(registered.dataset, registered.run, config).samples


@pytest.mark.parametrize(("error", "retried"), [(TrackingError("away"), True), (ModelError("no model"), False)])
def test_only_mlflow_being_away_is_retried(error: Exception, retried: bool) -> None:
    assert register_run.retries == 2
    assert is_tracking_failure(register_run, None, Failed(data=error)) is retried


def drift(distance: float, drifted: bool) -> Drift:
    distributions = Distributions(
        documents=9,
        reference_documents=8,
        distance=distance,
        noise=0.1,
        quantiles=[{"level": 0.5, "scored": 2.0, "reference": 1.0}],
        bins=[],
        bin_width=0.1,
    )
    return Drift(drifted=drifted, threshold=0.3, distributions=distributions, reason="", picture=None)


@pytest.mark.long
@pytest.mark.usefixtures("prefect_server")
def test_an_event_is_sent_only_for_drift(tmp_path: Path) -> None:
    config = ScoringConfig(input="in.txt", output="out.parquet")
    scoring = ScoringRecord(
        key="k",
        model="models:/toy@champion",
        model_folder=tmp_path,
        model_digest="d" * 64,
        input_files=1,
        output=tmp_path / "out.parquet",
        totals=Totals(),
    )
    assert raise_events.fn(drift_events(config, scoring, drift(0.05, False))) == 0
    [made] = drift_events(config, scoring, drift(0.5, True))
    labelled = made.model_copy(update={"labels": {"rnnlm.example": "3"}})
    assert raise_events.fn((labelled,)) == 1
    (event,) = awaited_drift_events(tmp_path)
    assert event["payload"]["distance"] == 0.5
    assert event["payload"]["input"] == "in.txt"
    assert event["payload"]["message"].startswith("in.txt: the distance between the scores of 9 documents and those of")
    assert event["resource"]["prefect.resource.id"] == f"rnnlm.model.{'d' * 16}"
    assert event["resource"]["prefect.resource.name"] == "models:/toy@champion"
    assert event["resource"]["rnnlm.example"] == "3"
