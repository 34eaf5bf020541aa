"""A new version against the champion: the champion comes from the registry, the evidence goes there.

With each version lie, beside its bundle, `evidence/training_documents.parquet` (fingerprints of what its training has
seen: its dataset may be gone when a later candidate needs it) and `evidence/losses.parquet` (what each document cost
both).
"""

import json
import logging
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.evidence import compare_models
from rnnlm.evaluation.paired.holdout_documents import write_known_digests
from rnnlm.evaluation.paired.paired_losses import KnownDocuments, load_contestant
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.home import Home
from rnnlm.records import DatasetRecord, RunRecord
from rnnlm.registry.bundle import EVIDENCE, TRAINING_DOCUMENTS, local_artifacts
from rnnlm.registry.model_lookup import all_pages, registered_folder
from rnnlm.registry.promotion import Decision, decide, undecidable
from rnnlm.registry.version_tags import corpus_folder
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sql_statements import statement
from rnnlm.tracking.mlflow_store import tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)
LOSSES = "losses.parquet"


def compare_with_champion(
    client: "MlflowClient",
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    candidate: "ModelVersion",
    run: RunRecord,
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
    if (why := cleaning_hides_text(config.corpus, champion)) is not None:
        return undecidable(number, why)
    with tempfile.TemporaryDirectory(prefix="rnnlm-evidence-") as temporary:
        own, others, losses = (Path(temporary) / name for name in (TRAINING_DOCUMENTS, "champions.parquet", LOSSES))
        write_known_digests(dataset, config.training.validation.tokens, own)
        digests = [own]
        if known := fetch_training_digests(client, home, champion, others):
            digests.append(others)
        evidence = compare_models(
            load_contestant(run.model_folder, known_documents(home, dataset, run, config.evaluation.batch_size)),
            contestant,
            dataset,
            corpus_folder(home, dataset),
            digests,
            losses,
            config.registry,
            1 + len(compared_before(client, champion)),
        )
        if evidence is None:
            return undecidable(number, "the training of one of the two has seen every validation document")
        client.log_model_artifact(candidate.tags["logged_model_id"], str(losses), EVIDENCE)
    decision = decide(evidence, number, config.registry)
    if known or champion.tags.get("dataset_id") == dataset.dataset_id:
        return decision
    # Registered before this was kept. What the champion may have seen can only help it: a candidate that wins
    # nevertheless is better.
    said = f"{decision.reason}; what champion version {number} was trained on is not known, so it may have seen some"
    return Decision(decision.alias, said, evidence)


def known_documents(home: Home, dataset: DatasetRecord, run: RunRecord, batch_size: int) -> KnownDocuments | None:
    """The candidate's losses, from its evaluation."""
    if dataset.mode != "sentence":
        return None
    with connect(dataset) as connection:
        rows = connection.execute(statement("promotion/read_document_places")).fetchall()
    nll_nats = stored_nll(home, dataset, run, "valid", batch_size)
    return KnownDocuments(nll_nats, {number: (first, last) for number, first, last in rows})


def compared_before(client: "MlflowClient", champion: "ModelVersion") -> list["ModelVersion"]:
    """The versions that were compared with this champion."""
    wanted = f"name = '{champion.name}' and tags.parent_version = '{champion.version}'"
    return [
        version for version in all_pages(partial(client.search_model_versions, wanted)) if "evidence" in version.tags
    ]


def cleaning_hides_text(candidate: CorpusConfig, champion: "ModelVersion") -> str | None:
    """Why texts of the two cannot be told to be the same; None if they can.

    Fingerprints see through cleaning unless digits became letters. Digests of bytes, which versions registered before
    fingerprints have, do not see through any.
    """
    theirs = CorpusConfig.model_construct(**corpus_settings(champion))
    fields = ("normalization", "lowercase", "digits")
    different = [name for name in fields if getattr(candidate, name) != getattr(theirs, name)]
    if champion.tags.get("document_digests") == "letters":
        written = f"{candidate.digits or ''}{theirs.digits or ''}"
        different = ["digits"] if "digits" in different and any(map(str.isalpha, written)) else []
    if not different:
        return None
    names = ", ".join(f"corpus.{name}" for name in different)
    return f"{names} differs, so it cannot be told which documents the champion was trained on"


def corpus_settings(version: "ModelVersion") -> dict[str, Any]:
    """What of the version's corpus settings differs from the defaults, as far as its tag says."""
    try:
        settings: dict[str, Any] = json.loads(version.tags["configuration"]).get("corpus", {})
    except (KeyError, ValueError):  # registered by an early version, or too long for a tag
        return {}
    return settings


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
