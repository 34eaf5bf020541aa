"""Logged models of MLflow, which contain the files of registered versions, and the creation of a version."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rnnlm.registry.registry_version import RegistryVersion, as_tags, registry_version
from rnnlm.registry.stored_versions import MODEL_TYPE

if TYPE_CHECKING:
    from mlflow import MlflowClient

# The metadata entries that become tags of the logged model. MLflow can rank models by these tags.
MODEL_FACTS = ("corpus_name", "dataset_id", "run_id", "tokenizer")
MODEL_VERSIONS = "mlflow.modelVersions"  # The tag in which MLflow stores the versions of a logged model.


@contextmanager
def new_logged_model(
    client: "MlflowClient",
    name: str,
    experiment: str,
    facts: dict[str, str],
    parameters: dict[str, str] | None = None,
    mlflow_run_id: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Create a logged model, and yield its id and the location of its files, which are written inside the context.

    After an error the logged model is deleted.
    """
    logged = client.create_logged_model(
        experiment,
        name=name,
        source_run_id=mlflow_run_id,
        model_type=MODEL_TYPE,
        tags={fact: facts[fact] for fact in MODEL_FACTS if fact in facts},
        params=parameters,
    )
    model_id = str(logged.model_id)
    try:
        yield model_id, str(logged.artifact_location)
    except BaseException:  # BaseException includes KeyboardInterrupt, after which the logged model is deleted, too.
        client.delete_logged_model(model_id)
        raise
    client.finalize_logged_model(model_id, "READY")


def create_version(
    client: "MlflowClient",
    name: str,
    location: str,
    model_id: str,
    facts: dict[str, str],
    description: str,
    mlflow_run_id: str | None = None,
) -> RegistryVersion:
    """Add a version without an alias, whose files are those of the logged model `model_id`, and return it."""
    version = client.create_model_version(
        name,
        location,
        run_id=mlflow_run_id,
        model_id=model_id,
        tags=as_tags(facts | {"logged_model_id": model_id}),
        description=description,
    )
    # The tag is set, because MLflow's pages find the version by it. MLflow's database has no column for a version's
    # model_id.
    client.set_logged_model_tags(model_id, {MODEL_VERSIONS: json.dumps([{"name": name, "version": version.version}])})
    return registry_version(version)
