"""Promotion: compare a new version with the champion, and decide which of them is champion.

The comparison is on documents that neither was trained on. Beside each version's bundle are
`evidence/training_documents.parquet` (fingerprints of what its training has seen: its dataset may be gone when a later
candidate needs it) and `evidence/losses.parquet` (what each document cost both).
"""

import json
import logging
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rnnlm.config import CorpusConfig, RegistryConfig
from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.bootstrap import measure_evidence
from rnnlm.evaluation.paired.holdout_documents import (
    FEW_DOCUMENTS,
    HoldoutDocument,
    cut_into_blocks,
    holdout_documents,
    write_known_digests,
)
from rnnlm.evaluation.paired.paired_losses import Contestant, KnownDocuments, load_contestant, write_paired_losses
from rnnlm.evaluation.token_losses import evaluation_device, stored_nll
from rnnlm.home import Home
from rnnlm.models.devices import float32_products
from rnnlm.registry.bundle import EVIDENCE, TRAINING_DOCUMENTS, evidence_folder
from rnnlm.registry.champion_history import all_versions, read_history
from rnnlm.registry.model_lookup import registered_folder
from rnnlm.registry.model_names import Alias
from rnnlm.registry.tag_names import facts_of
from rnnlm.registry.version_tags import Candidate, corpus_folder
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.records import Evidence
from rnnlm.storage.sql_statements import statement
from rnnlm.tracking.mlflow_store import all_pages
from rnnlm.training.warm_start import ANCESTOR_DOCUMENTS

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

logger = logging.getLogger(__name__)
PAIRED_LOSSES = "losses.parquet"
DIGESTS_AT_ONCE = 10_000
BEST_VERSION = "best_version"  # fact of a decided version: its Decision.best_version
BEST_WITHIN = timedelta(days=30)
ROUNDING = 1e-6  # nats per byte: by less than this the scores of one and the same model differ


class Decision(NamedTuple):
    alias: Alias
    reason: str
    evidence: Evidence | None = None
    best_version: int | None = None  # of the candidate and the champions of the last month, on tonight's documents


def undecidable(champion: int, why: str) -> Decision:
    """Without evidence there is no promotion; `rnnlm promote` overrides it."""
    return Decision("challenger", f"not comparable with champion version {champion}: {why}")


def decide(evidence: Evidence, version: int, config: RegistryConfig, called: str = "champion") -> Decision:
    """Whether a candidate may take over from an earlier version, by registry.policy.

    newer: if it is shown not to be worse by more than the margin, or if it is not worse as far as the documents tell.
    better: if it is shown to be better. called: what the reason calls the earlier version.
    """
    figures = in_words(evidence, version, called)
    if evidence.units < config.minimum_units:
        few = f"only {evidence.units} {unit_noun(evidence)} to compare on, fewer than {config.minimum_units}"
        return Decision("challenger", f"{few} (registry.minimum_units): {figures}", evidence)
    if evidence.upper < -ROUNDING:
        return Decision("champion", f"better: {figures}", evidence)
    if config.policy == "newer":
        if evidence.upper < config.margin * evidence.champion_nats_per_byte:
            return Decision("champion", f"newer, and at most {100 * config.margin:.4g}% worse: {figures}", evidence)
        if evidence.difference <= ROUNDING:
            return Decision("champion", f"newer, and not worse on these documents: {figures}", evidence)
    if evidence.lower > ROUNDING:
        verdict = "worse"
    else:
        verdict = "not shown to be better" if config.policy == "better" else "not shown to be as good"
    return Decision("challenger", f"{verdict}: {figures}", evidence)


def unit_noun(evidence: Evidence) -> str:
    if evidence.blocks:
        return "block of lines" if evidence.units == 1 else "blocks of lines"
    return "document" if evidence.units == 1 else "documents"


def in_words(evidence: Evidence, version: int, called: str = "champion") -> str:
    """'1.2005 nats per byte against 1.3013 of champion version 3, a difference of -0.1008 …'"""
    documents = "runs of documents" if evidence.units < evidence.documents else unit_noun(evidence)
    return (
        f"{evidence.candidate_nats_per_byte:.4f} nats per byte against {evidence.champion_nats_per_byte:.4f} of "
        f"{called} version {version}, a difference of {evidence.difference:+.4f} (one-sided "
        f"{100 * evidence.confidence:.4g}% bounds {evidence.lower:+.4f} and {evidence.upper:+.4f}, "
        f"{evidence.resamples:,} resamples of {evidence.units:,} {documents}, {evidence.byte_count:,} bytes, "
        f"comparison {evidence.comparison} with it)"
    )


def compare_with_champion(
    client: "MlflowClient", home: Home, candidate: Candidate, version: "ModelVersion", champion: "ModelVersion"
) -> Decision:
    """The decision against the champion, and with registry.policy=newer against the best champion of the last month.

    Each night may lose a little less than the margin: the second comparison keeps these losses from adding up.
    """
    best = best_champion(client, champion)
    beside_best = None
    with tempfile.TemporaryDirectory(prefix="rnnlm-evidence-") as temporary:
        contest = Contest(client, home, candidate, Path(temporary))
        decision = contest.decide_against(champion, "champion")
        if contest.losses.exists():
            client.log_model_artifact(facts_of(version)["logged_model_id"], str(contest.losses), EVIDENCE)
        if best is not None and decision.alias == "champion" and candidate.config.registry.policy == "newer":
            beside_best = contest.decide_against(best, "the best champion of the month,")
    return joined(decision, beside_best, int(version.version), int((best or champion).version))


def joined(decision: Decision, beside_best: Decision | None, candidate: int, best: int) -> Decision:
    """The decision from those against the champion and against the best champion, with the version that is best now.

    beside_best: None if that is the champion, or if the candidate has not won against it. best: the best one so far.
    """
    last = beside_best or decision
    if last.alias == "challenger" and last.evidence is not None:
        return last._replace(best_version=best)
    if decision.alias == "challenger":
        return decision._replace(best_version=best)
    is_best = last.evidence is None or last.evidence.difference <= 0
    return decision._replace(best_version=candidate if is_best else best)


def best_champion(client: "MlflowClient", champion: "ModelVersion") -> "ModelVersion | None":
    """The version that was best when the last one was decided, if it was champion within BEST_WITHIN and is not now.

    None if a person has chosen the champion, who may have had reasons not to have a better one.
    """
    versions = {str(version.version): version for version in all_versions(client, champion.name)}
    decided = [version for version in versions.values() if BEST_VERSION in facts_of(version)]
    if not decided:
        return None
    number = facts_of(max(decided, key=lambda version: int(version.version)))[BEST_VERSION]
    history = read_history(list(versions.values()))
    ended = [change.when for change in history if str(change.before) == number]
    recent = (datetime.now(UTC) - BEST_WITHIN).isoformat(timespec="seconds")
    by_hand = bool(history) and history[-1].how in ("hand", "rollback")
    if by_hand or number == str(champion.version) or max(ended, default="") < recent:
        return None
    return versions.get(number)


class Contest:
    """A candidate, which is compared with earlier versions on documents that neither has seen."""

    def __init__(self, client: "MlflowClient", home: Home, candidate: Candidate, folder: Path) -> None:
        self.client, self.home, self.candidate, self.folder = client, home, candidate, folder
        self.device = str(evaluation_device(candidate.run))

    @property
    def losses(self) -> Path:
        """The file of both models' losses in the last comparison; missing if there was none."""
        return self.folder / PAIRED_LOSSES

    @cached_property
    def contestant(self) -> Contestant:
        return load_contestant(self.candidate.run.model_folder, self.device)

    @cached_property
    def training_documents(self) -> Path | None:
        """Fingerprints of what the candidate has seen; None if that is unknown."""
        path = self.folder / TRAINING_DOCUMENTS
        return None if write_training_documents(self.candidate, path) is None else path

    def decide_against(self, rival: "ModelVersion", called: str) -> Decision:
        """called: what the reason calls the earlier version, which may not be loadable; then there is no promotion."""
        config, dataset, number = self.candidate.config, self.candidate.dataset, int(rival.version)
        try:
            rival_folder = registered_folder(self.home, f"models:/{rival.name}/{number}")
            rival_model = load_contestant(rival_folder, self.device)
        except ModelError as error:
            return undecidable(number, f"its model cannot be loaded ({str(error).splitlines()[0]}); see rnnlm promote")
        if (why := cleaning_hides_text(config.corpus, rival)) is not None:
            return undecidable(number, why)
        if self.training_documents is None:
            return undecidable(number, "it is unknown what the model that the candidate started from was trained on")
        rivals = training_digests(rival, rival_folder)
        seen = [self.training_documents, *([rivals] if rivals else [])]
        documents = holdout_documents(dataset, seen, config.registry.maximum_documents, config.registry.seed)
        if not documents:
            return undecidable(number, "the training of one of the two has seen every validation document")
        evidence = self.measure(rival_model, documents, 1 + comparisons_before(self.client, rival))
        decision = decide(evidence, number, config.registry, called)
        same_text = facts_of(rival).get("dataset_id") == dataset.dataset_id and "started_from" not in facts_of(rival)
        if rivals or same_text:
            return decision
        # Registered before training documents were kept. What the version may have seen can only help it: a candidate
        # that wins nevertheless is better.
        reason = f"{decision.reason}; champion version {number}'s training text is unknown, so it may have seen some"
        return Decision(decision.alias, reason, evidence)

    def measure(self, rival: Contestant, documents: list[HoldoutDocument], comparison: int) -> Evidence:
        """comparison: how many candidates have been compared with this rival, this one included."""
        texts = corpus_folder(self.home, self.candidate.dataset)
        blocks, known = len(documents) < FEW_DOCUMENTS, None
        if blocks:
            documents = cut_into_blocks(texts, documents)
        else:
            known = known_documents(self.home, self.candidate, documents)
        contestants = {"candidate": replace(self.contestant, known=known), "champion": rival}
        with float32_products("float32"):
            write_paired_losses(contestants, documents, texts, self.losses)
        return measure_evidence(self.losses, self.candidate.config.registry, comparison, blocks=blocks)


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
        while rows := result.fetchmany(DIGESTS_AT_ONCE):
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
