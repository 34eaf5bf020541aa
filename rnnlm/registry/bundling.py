"""A trained model as an MLflow model: models-from-code, safetensors, exact requirements, no pickle."""

import importlib.metadata
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.home import file_digest

if TYPE_CHECKING:
    from mlflow import MlflowClient

STAGE_VERSION = 2  # raised when the registered bundle changes for the same run
LIBRARY = Path(__file__).resolve().parent.parent
SERVED_CODE = (  # needs torch alone, or tokenizers alone
    LIBRARY / "models" / "elman.py",
    LIBRARY / "generation" / "sampling.py",
    LIBRARY / "generation" / "stepping.py",
    LIBRARY / "tokenizers" / "face.py",
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
    import mlflow.pyfunc
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    logged = client.create_logged_model(experiment, name=name, source_run_id=mlflow_run_id, model_type="language model")
    with tempfile.TemporaryDirectory(prefix="rnnlm-bundle-") as temporary:
        code = Path(temporary) / "code"
        code.mkdir()
        for module in SERVED_CODE:
            shutil.copy(module, code)
        saved = Path(temporary) / "model"
        mlflow.pyfunc.save_model(
            saved,
            python_model=str(LIBRARY / "registry" / "served_model.py"),
            artifacts={"bundle": str(folder), "code": str(code)},
            pip_requirements=requirements(),  # inferring them would run the model for 10 s
            mlflow_model=Model(artifact_path=logged.artifact_location, run_id=mlflow_run_id, model_id=logged.model_id),
        )
        (saved / BUNDLE / "README.md").write_text(card, encoding="utf-8")
        shutil.copytree(evidence, saved / EVIDENCE)
        client.log_model_artifacts(logged.model_id, str(saved))
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(mlflow_run_id, [LoggedModelOutput(logged.model_id, step=0)])
    return str(logged.model_id), str(logged.artifact_location)
