"""A run becomes a version of its corpus' model, and champion where it is the best on its dataset."""

import importlib.metadata
from typing import TYPE_CHECKING

from rnnlm.config import PipelineConfig
from rnnlm.generation.pages import samples_page
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, EvaluationRecord, RegisteredVersion, RunRecord, SamplesRecord
from rnnlm.registry.bundling import log_bundle, model_digest
from rnnlm.registry.naming import Alias, registered_name
from rnnlm.registry.promotion import Standing, decide
from rnnlm.stages import stage
from rnnlm.tracking.runs import track_later
from rnnlm.tracking.store import experiment_id, reaching_mlflow

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

STAGE_VERSION = 2  # raised when the registered bundle changes for the same run


@stage("registration")
def register_model(
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    run: RunRecord,
    evaluation: EvaluationRecord,
    samples: SamplesRecord,
    *,
    force: bool = False,
) -> RegisteredVersion:
    """Register the run's model once, decide its alias, and report the alias it has in the registry now.

    The registry itself is asked what was done, so a killed call is taken up where it stopped.
    TrackingError where MLflow fails.
    """
    name = registered_name(config.registry, dataset.corpus_name)
    tags = version_tags(dataset, run, evaluation)
    # MLflow's aliases have no compare-and-set: one comparison at a time.
    with home.lock("mlflow-registry"), reaching_mlflow(home) as client:
        ensure_registered_model(client, name)
        version = None if force else find_version(client, name, tags)
        skipped = version is not None and "alias" in version.tags
        if version is None:
            version = add_version(client, home, config, dataset, run, samples, name, tags)
        if not skipped:
            promote(client, version)
        return report(client, name, version.version).model_copy(update={"skipped": skipped})


def version_tags(dataset: DatasetRecord, run: RunRecord, evaluation: EvaluationRecord) -> dict[str, str]:
    """What a version says of itself; all values are text in MLflow."""
    test = evaluation.scores["test"]
    return {
        "run_id": run.run_id,
        "dataset_id": dataset.dataset_id,
        "corpus_name": dataset.corpus_name,
        "corpus_digest": dataset.corpus_digest,
        "validation_perplexity": repr(evaluation.scores["valid"].perplexity),
        "test_perplexity": repr(test.perplexity),
        "bits_per_byte": repr(test.bits_per_byte),
        "unknown_rate": repr(test.unknown_rate),
        "model_sha256": model_digest(run.model_folder),
        "code_version": importlib.metadata.version("rnnlm"),
        "bundle_version": str(STAGE_VERSION),
    }


def ensure_registered_model(client: "MlflowClient", name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def find_version(client: "MlflowClient", name: str, tags: dict[str, str]) -> "ModelVersion | None":
    """The newest version with these weights of this run, made by this code and scored the same."""
    found = [
        version
        for version in client.search_model_versions(f"name = '{name}' and tags.run_id = '{tags['run_id']}'")
        if all(version.tags.get(key) == value for key, value in tags.items())
    ]
    return max(found, key=lambda version: int(version.version), default=None)


def add_version(
    client: "MlflowClient",
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    run: RunRecord,
    samples: SamplesRecord,
    name: str,
    tags: dict[str, str],
) -> "ModelVersion":
    """A new version, without an alias yet."""
    mlflow_run_id = living_run(client, home, config, dataset, run)
    experiment = client.get_run(mlflow_run_id).info.experiment_id
    model_id, source = log_bundle(client, experiment, mlflow_run_id, name, run.model_folder)
    return client.create_model_version(
        name,
        source,
        run_id=mlflow_run_id,
        model_id=model_id,
        tags=tags,
        description=samples_page(samples.samples),
    )


def living_run(
    client: "MlflowClient", home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord
) -> str:
    """The MLflow run of the training; a new one where MLflow was away then, or has lost it since."""
    experiment = experiment_id(client, home, config.tracking.experiment)
    candidates = [run.mlflow_run_id] if run.mlflow_run_id else []
    made_later = client.search_runs([experiment], f"tags.`rnnlm.run_id` = '{run.run_id}'", max_results=100)
    known = [found.info.run_id for found in made_later]
    for candidate in candidates:
        if candidate in known or exists(client, candidate):
            return candidate
    if known:
        return str(known[0])
    return track_later(client, home, config, dataset, run)


def exists(client: "MlflowClient", mlflow_run_id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(mlflow_run_id).info.lifecycle_stage == "active"
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise


def promote(client: "MlflowClient", version: "ModelVersion") -> None:
    """Give the version its alias; the tag `alias` comes last and says that the decision was carried out."""
    name, number = version.name, version.version
    champion = champion_of(client, name)
    decision = decide(standing(version), standing(champion) if champion else None)
    client.set_registered_model_alias(name, decision.alias, number)
    if decision.alias == "champion" and champion is not None:
        client.set_model_version_tag(name, champion.version, "replaced_by", str(number))
    client.set_model_version_tag(name, number, "reason", decision.reason)
    client.set_model_version_tag(name, number, "alias", decision.alias)


def champion_of(client: "MlflowClient", name: str) -> "ModelVersion | None":
    number = client.get_registered_model(name).aliases.get("champion")
    return client.get_model_version(name, number) if number else None


def standing(version: "ModelVersion") -> Standing:
    """What the tags say of a version. Another program may have registered it: then they say little."""
    try:
        perplexity: float | None = float(version.tags["validation_perplexity"])
    except (KeyError, ValueError):
        perplexity = None
    return Standing(int(version.version), version.tags.get("dataset_id", "unknown"), perplexity)


def report(client: "MlflowClient", name: str, number: int | str) -> RegisteredVersion:
    """What the registry says of the version now: somebody may have moved an alias since it was registered."""
    version = client.get_model_version(name, str(number))
    champion = champion_of(client, name)
    aliases = client.get_registered_model(name).aliases
    held = {alias for alias, holder in aliases.items() if int(holder) == int(number)}
    alias: Alias = "champion" if "champion" in held else "challenger"
    reason = version.tags.get("reason", "")
    if alias != version.tags.get("alias"):
        holder = f"; the champion is version {champion.version}" if champion and alias == "challenger" else ""
        reason = f"{alias} now, {version.tags.get('alias')} when registered ({reason}){holder}"
    # A later challenger has taken the alias over: the number still finds this version.
    uri = f"models:/{name}@{alias}" if alias in held else f"models:/{name}/{number}"
    return RegisteredVersion(name=name, version=int(number), alias=alias, reason=reason, uri=uri)
