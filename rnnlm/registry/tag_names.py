"""How facts of a version are named as its tags in MLflow: five that people filter by, and the rest with a prefix.

MLflow's search finds all of them (``tags.`mlflow.rnnlm.corpus_digest` = '…'``). Its list of versions (3.17) shows all
of them too, although its pages of runs hide tags whose name begins with `mlflow.`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

    from rnnlm.registry.champion_history import TaggedVersion

SHOWN = ("alias", "corpus_name", "dataset_id", "run_id", "tokenizer")
HIDDEN_PREFIX = "mlflow.rnnlm."


def tag_name(fact: str) -> str:
    return fact if fact in SHOWN else f"{HIDDEN_PREFIX}{fact}"


def as_tags(facts: dict[str, str]) -> dict[str, str]:
    """Facts under the names of their tags."""
    return {tag_name(fact): value for fact, value in facts.items()}


def facts_of(version: "ModelVersion | TaggedVersion") -> dict[str, str]:
    """The version's tags by the names of their facts. Versions of before show all of them under these names."""
    return {name.removeprefix(HIDDEN_PREFIX): value for name, value in version.tags.items()}


def set_fact(client: "MlflowClient", name: str, version: str, fact: str, value: str) -> None:
    client.set_model_version_tag(name, version, tag_name(fact), value)
