"""A new version against the champion: the champion comes from the registry, the evidence goes there.

With each version lie, beside its bundle, `evidence/training_documents.parquet` (the sha256 of what it was trained on:
its dataset may be gone when a later candidate needs it) and `evidence/losses.parquet` (what each document cost both).
"""

import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.config import RegistryConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.comparing import compare_models
from rnnlm.evaluation.paired.ground import write_training_digests
from rnnlm.evaluation.paired.scoring import load_contestant
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.registry.bundling import EVIDENCE, TRAINING_DOCUMENTS, local_artifacts
from rnnlm.registry.describing import corpus_folder
from rnnlm.registry.lookup import registered_folder
from rnnlm.registry.promotion import Decision, decide, undecidable
from rnnlm.tracking.store import tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)
LOSSES = "losses.parquet"


def compare_with_champion(
    client: "MlflowClient",
    home: Home,
    config: RegistryConfig,
    dataset: DatasetRecord,
    candidate: "ModelVersion",
    candidate_folder: Path,
    champion: "ModelVersion",
) -> Decision:
    """The decision, with the losses of every document logged beside the candidate's bundle.

    A champion that cannot be loaded any more stays champion: the candidate becomes challenger and says why.
    """
    number = int(champion.version)
    try:
        folder = registered_folder(home, f"models:/{champion.name}/{number}")
        contestant = load_contestant(folder)
    except ModelError as error:
        return undecidable(number, f"its model cannot be loaded ({str(error).splitlines()[0]}); see rnnlm promote")
    with tempfile.TemporaryDirectory(prefix="rnnlm-evidence-") as temporary:
        own, others, losses = (Path(temporary) / name for name in (TRAINING_DOCUMENTS, "champions.parquet", LOSSES))
        write_training_digests(dataset, own)
        digests = [own]
        if known := fetch_training_digests(client, home, champion, others):
            digests.append(others)
        evidence = compare_models(
            candidate_folder, contestant, dataset, corpus_folder(home, dataset), digests, losses, config
        )
        if evidence is None:
            return undecidable(number, "every validation document lies in a training split of one of the two")
        client.log_model_artifact(candidate.tags["logged_model_id"], str(losses), EVIDENCE)
    decision = decide(evidence, number, config)
    if known or champion.tags.get("dataset_id") == dataset.dataset_id:
        return decision
    # Registered before this was kept. What the champion may have seen can only help it: a candidate that wins
    # nevertheless is better.
    said = f"{decision.reason}; what champion version {number} was trained on is not known, so it may have seen some"
    return Decision(decision.alias, said, evidence)


def fetch_training_digests(client: "MlflowClient", home: Home, version: "ModelVersion", path: Path) -> bool:
    """Copy the version's training documents' digests to `path`. False where it has none.

    An artifact store that is away is MLflow's exception: it may come back.
    """
    if "training_documents" not in version.tags:
        return False
    inside = f"{EVIDENCE}/{TRAINING_DOCUMENTS}"
    if (artifacts := local_artifacts(version)) is not None:
        local = artifacts / inside
        if not local.exists():
            logger.warning("%s version %s: %s is missing", version.name, version.version, local)
            return False
    else:
        import mlflow.artifacts

        uri = client.get_model_version_download_uri(version.name, version.version)
        local = Path(
            mlflow.artifacts.download_artifacts(
                artifact_uri=f"{uri.rstrip('/')}/{inside}", tracking_uri=tracking_uri(home), dst_path=str(path.parent)
            )
        )
    if local != path:
        shutil.copy(local, path)
    return True
