"""Delete logged models whose registration was killed; MLflow would show them as Pending for ever."""

import logging
from functools import partial
from typing import TYPE_CHECKING

from rnnlm.home import Home
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.tracking.mlflow_store import all_pages, best_effort, is_empty, reaching_mlflow

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

logger = logging.getLogger(__name__)
MODEL_TYPE = "language model"


def delete_unfinished_models(home: Home) -> int:
    """Delete the Pending models that nobody is registering now. Returns how many."""
    if is_empty(home):
        return 0
    deleted = 0
    with best_effort("the end of killed registrations"), reaching_mlflow(home) as client:
        experiments = [found.experiment_id for found in client.search_experiments()]
        for name in sorted({str(model.name) for model in unfinished(client, experiments)}):
            with registry_lock(home, name):  # a registration holds it while its model is Pending
                deleted += delete_unfinished(client, experiments, name)
    return deleted


def delete_unfinished(client: "MlflowClient", experiments: list[str], name: str) -> int:
    """Delete the Pending models of this name. Call it under the registered model's lock."""
    found = [model for model in unfinished(client, experiments) if model.name == name]
    for model in found:
        client.delete_logged_model(str(model.model_id))
        logger.warning("%s: a registration was killed; its unfinished model was removed", name)
    return len(found)


def unfinished(client: "MlflowClient", experiments: list[str]) -> "list[LoggedModel]":
    models = all_pages(partial(client.search_logged_models, experiments))
    return [model for model in models if model.model_type == MODEL_TYPE and str(model.status) == "PENDING"]
