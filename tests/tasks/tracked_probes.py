"""Small comparisons of `rnnlm probe`, for tests of tasks and flows."""

from pathlib import Path

from rnnlm.extensions.probes.probe_config import AbilitiesConfig, EchoConfig, GradientProbeConfig
from rnnlm.storage.home import Home
from rnnlm.tracking.mlflow_store import reaching_mlflow

ECHO = EchoConfig(distances=(1, 3), nonlinearities=("tanh",), hidden_size=4, training_steps=2)
GRADIENTS = GradientProbeConfig(hidden_size=4, steps=5, rows=2)
ABILITIES = AbilitiesConfig(
    kinds=("elman", "transformer"),
    tasks=("parity", "echo"),
    trained_length=6,
    lengths=(6, 12, 18),
    parameters=1_500,
    training_steps=2,
    batch_size=4,
    seeds=2,
    processes=1,
)
PNG = b"\x89PNG"


def tracked(home: Home, experiment: str = "rnnlm") -> list[tuple[dict[str, str], dict[str, list[tuple[int, float]]]]]:
    """Return the parameters of each MLflow run of the experiment, and the steps and values of its metrics."""
    with reaching_mlflow(home) as client:
        found = client.get_experiment_by_name(experiment)
        runs = [] if found is None else client.search_runs([found.experiment_id])
        return [
            (
                run.data.params,
                {
                    name: [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]
                    for name in run.data.metrics
                },
            )
            for run in runs
        ]


def artifacts(home: Home, run_url: str, folder: Path) -> dict[str, bytes]:
    """Return the artifacts of the MLflow run with this URL. The keys are their names."""
    run_id = run_url.rpartition("/")[2].partition("?")[0]
    with reaching_mlflow(home) as client:
        names = [artifact.path for artifact in client.list_artifacts(run_id)]
        return {name: Path(client.download_artifacts(run_id, name, str(folder))).read_bytes() for name in names}
