"""The name of a run contains its text and its preset. Runs that start in the same minute have different names."""

import threading

import pytest
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow

from flows.operations.flow_start import rnnlm_flow
from flows.operations.run_labels import subject_of
from rnnlm.config import CorpusConfig, EngineConfig, PipelineConfig
from rnnlm.storage.home import Home

ZEN = PipelineConfig(corpus=CorpusConfig(source="zen"), preset="smoke")


@rnnlm_flow("naming")
def naming_flow() -> None: ...


@pytest.mark.long
def test_runs_of_one_minute_have_different_names(home: Home, prefect_server: None) -> None:
    threads = [threading.Thread(target=naming_flow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with get_client(sync_client=True) as client:
        names = [run.name for run in client.read_flow_runs() if run.name.startswith("naming · ")]
    assert len(names) == 4
    assert len(set(names)) == 4
    # Names of runs in the same minute are numbered. All runs begin in one minute, or in two if the minute has just
    # changed.
    assert 2 <= sum(name.endswith(")") for name in names) <= 3


@pytest.mark.parametrize(
    ("parameters", "subject"),
    [
        ({"config": ZEN}, ("zen", "smoke")),
        ({"config": ZEN, "corpus": "counting", "preset": "ptb"}, ("counting", "ptb")),
        # `config` is not a pipeline's configuration here, so the names come from `pipeline`.
        ({"config": EngineConfig(), "pipeline": ZEN}, ("zen", "smoke")),
        ({"config": EngineConfig()}, ("", "")),
        ({"seeds": 3}, ("", "")),
    ],
)
def test_a_run_is_named_for_its_text_and_preset(parameters: dict[str, object], subject: tuple[str, str]) -> None:
    assert subject_of(parameters) == subject


@rnnlm_flow("labelling")
def labelling_flow(config: PipelineConfig = PipelineConfig(), corpus: str = "", preset: str = "") -> None: ...


@pytest.mark.long
def test_choices_in_the_form_of_a_deployment_name_its_run(home: Home, prefect_server: None) -> None:
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(labelling_flow)
        deployed = {"config": {"preset": "smoke", "corpus": {"source": "zen"}}}
        deployment = client.create_deployment(flow_id, "labelling", parameters=deployed)
        for choices, name in (({}, "zen · smoke"), ({"corpus": "counting", "preset": "ptb"}, "counting · ptb")):
            run = client.create_flow_run_from_deployment(deployment, parameters=choices)
            run_flow(labelling_flow, flow_run=run, parameters=run.parameters, return_type="state")
            assert client.read_flow_run(run.id).name.startswith(f"labelling {name} · ")
