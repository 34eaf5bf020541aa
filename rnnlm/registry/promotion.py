"""Promotion: compare a new version with the champion, and decide which of them is champion.

The comparison is on documents that neither was trained on. Beside each version's bundle are
`evidence/training_documents.parquet` (fingerprints of what its training has seen: its dataset may be gone when a later
candidate needs it) and `evidence/losses.parquet` (what each document cost both).
"""

import json
import logging
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.config import CorpusConfig, RegistryConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.bootstrap import measure_evidence
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, holdout_documents, write_known_digests
from rnnlm.evaluation.paired.paired_losses import KnownDocuments, load_contestant, write_paired_losses
from rnnlm.evaluation.token_losses import evaluation_device, stored_nll
from rnnlm.home import Home
from rnnlm.models.devices import float32_products
from rnnlm.records import Evidence
from rnnlm.registry.bundle import EVIDENCE, TRAINING_DOCUMENTS, evidence_folder
from rnnlm.registry.model_lookup import all_pages, registered_folder
from rnnlm.registry.model_names import Alias
from rnnlm.registry.tag_names import facts_of
from rnnlm.registry.version_tags import Candidate, corpus_folder
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sql_statements import statement
from rnnlm.training.warm_start import ANCESTOR_DOCUMENTS

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)
PAIRED_LOSSES = "losses.parquet"
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Decision:
    alias: Alias
    reason: str
    evidence: Evidence | None = None


def undecidable(champion: int, why: str) -> Decision:
    """Without evidence there is no promotion; `rnnlm promote` overrides it."""
    return Decision("challenger", f"not comparable with champion version {champion}: {why}")


def decide(evidence: Evidence, champion: int, config: RegistryConfig) -> Decision:
    """Champion if even the upper bound of the difference says that it is better; else challenger."""
    figures = in_words(evidence, champion)
    if evidence.units < config.minimum_units:
        noun = "document" if evidence.units == 1 else "documents"
        few = f"only {evidence.units} {noun} to compare on, fewer than {config.minimum_units}"
        return Decision("challenger", f"{few} (registry.minimum_units): {figures}", evidence)
    if evidence.upper < 0:
        return Decision("champion", f"better: {figures}", evidence)
    verdict = "worse" if evidence.lower > 0 else "not shown to be better"
    return Decision("challenger", f"{verdict}: {figures}", evidence)


def in_words(evidence: Evidence, champion: int) -> str:
    """'1.2005 nats per byte against 1.3013 of champion version 3, a difference of -0.1008 …'"""
    documents = "runs of documents" if evidence.units < evidence.documents else "documents"
    return (
        f"{evidence.candidate_nats_per_byte:.4f} nats per byte against {evidence.champion_nats_per_byte:.4f} of "
        f"champion version {champion}, a difference of {evidence.difference:+.4f} (one-sided "
        f"{100 * evidence.confidence:.4g}% bounds {evidence.lower:+.4f} and {evidence.upper:+.4f}, "
        f"{evidence.resamples:,} resamples of {evidence.units:,} {documents}, {evidence.byte_count:,} bytes, "
        f"comparison {evidence.comparison} with it)"
    )


def compare_with_champion(
    client: "MlflowClient", home: Home, candidate: Candidate, version: "ModelVersion", champion: "ModelVersion"
) -> Decision:
    """The decision; the losses of every document are logged beside the candidate version's bundle.

    If the champion cannot be loaded it stays champion: the candidate becomes challenger with that as the reason.
    """
    config, dataset, number = candidate.config, candidate.dataset, int(champion.version)
    own_folder, device = candidate.run.model_folder, str(evaluation_device(candidate.run))
    try:
        champion_folder = registered_folder(home, f"models:/{champion.name}/{number}")
        champion_model = load_contestant(champion_folder, device)
    except ModelError as error:
        return undecidable(number, f"its model cannot be loaded ({str(error).splitlines()[0]}); see rnnlm promote")
    if (why := cleaning_hides_text(config.corpus, champion)) is not None:
        return undecidable(number, why)
    with tempfile.TemporaryDirectory(prefix="rnnlm-evidence-") as temporary:
        own, losses = Path(temporary) / TRAINING_DOCUMENTS, Path(temporary) / PAIRED_LOSSES
        if write_training_documents(candidate, own) is None:
            return undecidable(number, "it is unknown what the model that the candidate started from was trained on")
        champions = training_digests(champion, champion_folder)
        seen = [own, champions] if champions else [own]
        documents = holdout_documents(dataset, seen, config.registry.maximum_documents, config.registry.seed)
        if not documents:
            return undecidable(number, "the training of one of the two has seen every validation document")
        contestants = {
            "candidate": load_contestant(own_folder, device, known_documents(home, candidate, documents)),
            "champion": champion_model,
        }
        with float32_products("float32"):
            write_paired_losses(contestants, documents, corpus_folder(home, dataset), losses)
        evidence = measure_evidence(losses, config.registry, 1 + comparisons_before(client, champion))
        client.log_model_artifact(facts_of(version)["logged_model_id"], str(losses), EVIDENCE)
    decision = decide(evidence, number, config.registry)
    same_text = facts_of(champion).get("dataset_id") == dataset.dataset_id and "started_from" not in facts_of(champion)
    if champions or same_text:
        return decision
    # Registered before training documents were kept. What the champion may have seen can only help it: a candidate
    # that wins nevertheless is better.
    reason = f"{decision.reason}; champion version {number}'s training text is unknown, so it may have seen some"
    return Decision(decision.alias, reason, evidence)


def write_training_documents(candidate: Candidate, path: Path) -> int | None:
    """Write the fingerprints of all documents that the candidate and its ancestors by warm start have seen.

    Returns their number; None, and no file, if it is unknown what an ancestor has seen.
    """
    run, sample_tokens = candidate.run, candidate.config.training.validation.tokens
    ancestors = run.folder / ANCESTOR_DOCUMENTS if run.started_from else None
    if ancestors is not None and not ancestors.exists():
        return None
    return write_known_digests(candidate.dataset, sample_tokens, path, ancestors)


def known_documents(home: Home, candidate: Candidate, documents: list[HoldoutDocument]) -> KnownDocuments | None:
    """The candidate's losses on these documents, from its evaluation; None if they are scored in another way there."""
    if not candidate.dataset.scored_as_text:
        return None
    wanted = {document.document_id for document in documents}
    places: dict[int, tuple[int, int]] = {}
    with connect(candidate.dataset) as connection:
        result = connection.execute(statement("queries/read_document_places"), {"split": "valid"})
        while rows := result.fetchmany(ROWS_AT_ONCE):
            places |= {number: (first, last) for number, first, last, *_ in rows if number in wanted}
    batch_size = candidate.config.evaluation.batch_size
    nll_nats = stored_nll(home, candidate.dataset, candidate.run, "valid", batch_size)
    return KnownDocuments(nll_nats, places)


def comparisons_before(client: "MlflowClient", champion: "ModelVersion") -> int:
    """How many versions were compared with this champion, also if `rnnlm prune` has removed some since.

    Each comparison's evidence has its number; prune keeps the version with the highest.
    """
    found = map(facts_of, all_pages(partial(client.search_model_versions, f"name = '{champion.name}'")))
    compared = [facts for facts in found if facts.get("parent_version") == str(champion.version)]
    numbers = [json.loads(facts["evidence"]).get("comparison", 1) for facts in compared if "evidence" in facts]
    return max(len(numbers), *numbers, 0)


def cleaning_hides_text(candidate: CorpusConfig, champion: "ModelVersion") -> str | None:
    """Why equal texts of the two corpora cannot be recognised; None if they can.

    Fingerprints ignore cleaning unless digits became letters. Digests of bytes, which versions registered before
    fingerprints have, change with any cleaning.
    """
    champions = CorpusConfig.model_construct(**corpus_settings(champion))
    fields = ("normalization", "lowercase", "digits")
    different = [name for name in fields if getattr(candidate, name) != getattr(champions, name)]
    if facts_of(champion).get("document_digests") == "letters":
        written = f"{candidate.digits or ''}{champions.digits or ''}"
        different = ["digits"] if "digits" in different and any(map(str.isalpha, written)) else []
    if not different:
        return None
    names = ", ".join(f"corpus.{name}" for name in different)
    return f"{names} differs, so it is unknown which documents the champion was trained on"


def corpus_settings(version: "ModelVersion") -> dict[str, Any]:
    """The version's corpus settings that differ from the defaults, from its tag."""
    try:
        settings: dict[str, Any] = json.loads(facts_of(version)["configuration"]).get("corpus", {})
    except (KeyError, ValueError):  # registered by an early version, or too long for a tag
        return {}
    return settings


def training_digests(version: "ModelVersion", bundle: Path) -> Path | None:
    """The file with the digests of the version's training documents, in its artifacts; None if it has none."""
    if "training_documents" not in facts_of(version):
        return None
    path = evidence_folder(bundle) / TRAINING_DOCUMENTS
    if not path.exists():
        logger.warning("%s version %s: %s is missing", version.name, version.version, path)
        return None
    return path
