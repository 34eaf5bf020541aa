"""A trained model as an MLflow model: models-from-code, safetensors, exact requirements, no pickle."""

import importlib.metadata
import shutil
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.disk_errors import ABSENT
from rnnlm.home import file_digest
from rnnlm.stages import COMPLETE, find_damage, mark_complete

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

LIBRARY = Path(__file__).resolve().parent.parent
SERVED_CODE = (  # needs torch alone, or tokenizers alone
    LIBRARY / "models" / "elman.py",
    LIBRARY / "generation" / "sampling.py",
    LIBRARY / "generation" / "inference_weights.py",
    LIBRARY / "tokenizers" / "text_tokenizer.py",
)
REQUIREMENTS = ("mlflow", "torch", "tokenizers", "safetensors", "numpy", "pandas", "pydantic")
BUNDLE = "artifacts/model"  # in a registered model: MLflow keeps the name of the run's model folder
EVIDENCE = "evidence"  # beside it: what promotion rests on
TRAINING_DOCUMENTS = "training_documents.parquet"
CONFIGURATION = "configuration.json"


def model_digest(folder: Path) -> str:
    """sha256 of the weights: what makes two versions the same model."""
    return file_digest(folder / "model.safetensors")


def requirements() -> list[str]:
    """Exact versions; a local build's suffix (`+cpu`) is dropped, for no index knows it."""
    return [f"{name}=={importlib.metadata.version(name).partition('+')[0]}" for name in REQUIREMENTS]


def log_bundle(
    client: "MlflowClient", experiment: str, mlflow_run_id: str, name: str, folder: Path, card: str, evidence: Path
) -> tuple[str, str]:
    """Log the model folder, with the card as its README.md, as a model of the MLflow run; `evidence` beside it.

    Returns the model's id and where its artifacts lie.
    """
    from mlflow.entities import LoggedModelOutput

    logged = client.create_logged_model(experiment, name=name, source_run_id=mlflow_run_id, model_type="language model")
    model_id, location = str(logged.model_id), str(logged.artifact_location)
    log_artifacts(client, model_id, location, mlflow_run_id, folder, card, evidence)
    client.finalize_logged_model(model_id, "READY")
    client.log_outputs(mlflow_run_id, [LoggedModelOutput(model_id, step=0)])
    return model_id, location


def log_artifacts(
    client: "MlflowClient", model_id: str, location: str, mlflow_run_id: str, folder: Path, card: str, evidence: Path
) -> None:
    """Write the files of a logged model, over damaged ones if there are any, with a marker of their digests."""
    import mlflow.pyfunc
    from mlflow.models import Model

    with tempfile.TemporaryDirectory(prefix="rnnlm-bundle-") as temporary:
        code, model, saved = (Path(temporary) / name for name in ("code", "model", "saved"))
        code.mkdir()
        for module in SERVED_CODE:
            shutil.copy(module, code)
        # Hidden files are what a killed process left of one that it was writing.
        shutil.copytree(folder, model, ignore=shutil.ignore_patterns(".*"))
        (model / "README.md").write_text(card, encoding="utf-8")
        mlflow.pyfunc.save_model(
            saved,
            python_model=str(LIBRARY / "registry" / "served_model.py"),
            artifacts={"bundle": str(model), "code": str(code)},
            pip_requirements=requirements(),  # inferring them would run the model for 10 s
            mlflow_model=Model(artifact_path=location, run_id=mlflow_run_id, model_id=model_id),
        )
        shutil.copytree(evidence, saved / EVIDENCE)
        mark_complete(saved)
        client.log_model_artifacts(model_id, str(saved))


def local_artifacts(version: "ModelVersion") -> Path | None:
    """The folder of a version's artifacts, if it is a folder of this machine."""
    url = urllib.parse.urlparse(version.source)
    return Path(urllib.request.url2pathname(url.path)) if url.scheme in ("", "file") else None


def find_bundle_damage(version: "ModelVersion", artifacts: Path, apart_from: Collection[str] = ()) -> str | None:
    """What is wrong with a version's files in the folder `artifacts`; None if all are as they were registered.

    Entries of the folder named in apart_from are not looked at.
    Versions without a marker, registered before there was one, are held to the digest of their weights.
    """
    if (artifacts / COMPLETE).exists():
        return find_damage(artifacts, apart_from)
    try:
        if model_digest(artifacts / BUNDLE) == version.tags.get("model_sha256"):
            return None
    except ABSENT:
        return f"{BUNDLE}/model.safetensors is missing"
    return f"{BUNDLE}/model.safetensors differs from the sha256 it was registered with"
