"""Registration of a run as a version of its corpus's registered model, and promotion if registry.policy permits it."""

import json
import logging
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.corpora.character_profile import count_characters, training_text
from rnnlm.corpora.source_names import as_stored
from rnnlm.registry.bundle import (
    CHARACTERS,
    CONFIGURATION,
    EVIDENCE,
    HELD_OUT_LINES,
    TRAINING_DOCUMENTS,
    find_bundle_damage,
    local_artifacts,
    save_bundle,
)
from rnnlm.registry.bundle_check import check_bundle
from rnnlm.registry.champion_comparison import compare_with_champion
from rnnlm.registry.champion_history import set_champion
from rnnlm.registry.logged_models import create_version, new_logged_model
from rnnlm.registry.model_card import COMPARISON, comparison_with, description_of, model_card
from rnnlm.registry.model_owner import with_own_name
from rnnlm.registry.promotion import BEST_VERSION, Decision, kept_before, kept_since
from rnnlm.registry.registry_lock import registry_lock
from rnnlm.registry.registry_version import (
    RegistryVersion,
    champion_of,
    read_versions,
    set_facts,
)
from rnnlm.registry.seen_documents import write_held_out_lines, write_training_documents
from rnnlm.registry.stored_versions import delete_unfinished
from rnnlm.registry.version_tags import (
    LONGEST_TAG,
    SETTINGS,
    Candidate,
    corpus_folder,
    identity_tags,
    origin_tags,
    registered_name,
    settings_fact,
)
from rnnlm.storage.home import Home, write_json
from rnnlm.storage.result_records import Alias, RegisteredVersion
from rnnlm.storage.stages import mark_complete, stage
from rnnlm.tracking.mlflow_addresses import version_address
from rnnlm.tracking.mlflow_runs import ensure_mlflow_run, shown_parameters
from rnnlm.tracking.mlflow_store import ignoring, reaching_mlflow
from rnnlm.tracking.run_results import log_decision, log_model_scores

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)


@stage("registration")
def register_model(home: Home, candidate: Candidate, *, force: bool = False) -> RegisteredVersion:
    """Register the run's model once, decide its alias, and return the version with its current alias.

    The registry itself records the completed steps, so a killed registration continues where it stopped. If the files
    of a version were damaged or deleted, they are written again from the run. Raise TrackingError if MLflow fails.
    """
    candidate = with_own_name(home, candidate)
    name = registered_name(candidate.config.registry, candidate.dataset.corpus_name)
    identity = identity_tags(candidate)
    with reaching_mlflow(home) as client:
        with ignoring("RESOURCE_ALREADY_EXISTS"):
            client.create_registered_model(name, description=described_model(candidate.dataset.corpus_name))
        with registry_lock(home, name):
            version = None if force else find_registered(client, name, identity)
            damage = damage_of(version) if version else None
            known = version is not None and is_decided(version)
            if version is None:
                version = add_version(client, home, candidate, name, identity)
            elif damage is not None:
                logger.warning("%s version %s: %s; its files are written again", name, version.number, damage)
                repair_version(client, home, candidate, version)
            if not is_decided(version):
                assign_alias(client, home, candidate, version)
        done = report(client, name, version.number)
        if not known:
            log_decision(client, version.mlflow_run_id, candidate.dataset.corpus_name, done.alias)
        what = {"skipped": known and damage is None, "repaired": known and damage is not None}
        return done.model_copy(update={**what, "url": version_address(home, name, done.version)})


def described_model(corpus_name: str) -> str:
    """Return the description of a registered model for its page in MLflow."""
    return (
        f"Recurrent language models of the corpus `{corpus_name}`, registered by rnnlm. Use the alias `champion`; "
        "`challenger` is the last one that did not replace the champion. A version's description is its model card."
    )


def is_decided(version: RegistryVersion) -> bool:
    """Return True if the version has the `alias` entry, which is written after the decision was carried out."""
    return "alias" in version.facts


def find_registered(client: "MlflowClient", name: str, identity: dict[str, str]) -> RegistryVersion | None:
    """Return the newest version with the tags `identity`, which are those of identity_tags()."""
    of_run = read_versions(client, name, f" and tags.run_id = '{identity['run_id']}'")
    found = (version for version in of_run if identity.items() <= version.facts.items())
    return max(found, key=lambda version: version.number, default=None)


def add_version(
    client: "MlflowClient", home: Home, candidate: Candidate, name: str, identity: dict[str, str]
) -> RegistryVersion:
    """Add a new version without an alias to the registered model `name`, and return it."""
    from mlflow.entities import LoggedModelOutput

    mlflow_run_id = ensure_mlflow_run(client, home, candidate.config, candidate.dataset, candidate.run)
    experiment = client.get_run(mlflow_run_id).info.experiment_id
    tags = identity | origin_tags(home, candidate.config, candidate.dataset)
    tags[SETTINGS] = settings_fact(candidate.given)
    if (start := candidate.run.started_from) is not None:
        tags["started_from"] = f"{start.name}/{start.version}"
    champion = champion_of(client, name)
    card = model_card(name, candidate, tags, champion.number if champion else None)
    delete_unfinished(client, [experiment], name)
    parameters = shown_parameters(candidate.config)
    with new_logged_model(client, name, experiment, tags, parameters, mlflow_run_id) as (model_id, location):
        seen_documents = log_files(client, home, model_id, location, mlflow_run_id, candidate, card)
    client.log_outputs(mlflow_run_id, [LoggedModelOutput(model_id, step=0)])
    log_model_scores(client, mlflow_run_id, model_id, candidate.dataset, candidate.evaluation)
    if seen_documents is not None:
        tags |= {"training_documents": str(seen_documents), "document_digests": "letters and lines"}
    return create_version(client, name, location, model_id, tags, description_of(card), mlflow_run_id)


def log_files(
    client: "MlflowClient",
    home: Home,
    model_id: str,
    location: str,
    mlflow_run_id: str,
    candidate: Candidate,
    card: str,
) -> int | None:
    """Log the bundle, its evidence and a marker with the digests of all files. Damaged files are overwritten.

    Return the number of documents on which the model was trained, or None if it is unknown.
    """
    from mlflow.models import Model

    with tempfile.TemporaryDirectory(prefix="rnnlm-bundle-") as temporary:
        description = Model(artifact_path=location, run_id=mlflow_run_id, model_id=model_id)
        saved = save_bundle(Path(temporary), candidate.run.model_folder, card, description)
        check_bundle(saved)
        evidence = saved / EVIDENCE
        evidence.mkdir()
        write_json(evidence / CONFIGURATION, as_stored(candidate.config).model_dump(mode="json"))
        if (text := training_text(corpus_folder(home, candidate.dataset))) is not None:
            write_json(evidence / CHARACTERS, count_characters(text))
        seen_documents = write_training_documents(candidate, evidence / TRAINING_DOCUMENTS)
        write_held_out_lines(candidate.dataset, evidence / HELD_OUT_LINES)
        mark_complete(saved)
        client.log_model_artifacts(model_id, str(saved))
    return seen_documents


def damage_of(version: RegistryVersion) -> str | None:
    """Return a description of the damage of the version's files, or None if there is none.

    Files in a remote store are not checked.
    """
    artifacts = local_artifacts(version)
    return None if artifacts is None else find_bundle_damage(version, artifacts)


def repair_version(client: "MlflowClient", home: Home, candidate: Candidate, version: RegistryVersion) -> None:
    """Write the version's files again. The caller has checked that the version has the weights of the run."""
    card = model_card(version.name, candidate, version.facts, version.parent)
    model_id = version.facts["logged_model_id"]
    log_files(client, home, model_id, version.source, version.mlflow_run_id, candidate, card)


def assign_alias(client: "MlflowClient", home: Home, candidate: Candidate, version: RegistryVersion) -> None:
    """Decide whether the version becomes champion or challenger, set its alias, and record the evidence."""
    name, number = version.name, version.number
    champion = champion_of(client, name)
    # An earlier call made this version champion, and was killed before it wrote the `alias` entry.
    if champion is not None and champion.number == number:
        set_facts(client, name, number, {"alias": "champion"})
        return
    if champion is None and candidate.config.registry.promote == "never":
        decision = Decision("challenger", "not promoted, because registry.promote is never; there is no champion")
    elif champion is None:
        decision = Decision("champion", "there was no champion before it")
    else:
        decision = compare_with_champion(client, home, candidate, version, champion)
    logger.info("%s version %s becomes %s: %s", name, number, decision.alias, decision.reason)
    if champion is not None and COMPARISON not in version.description:
        beside = comparison_with(champion.listed(), candidate, decision.evidence)
        client.update_model_version(name, str(number), description=description_of(version.description, beside))
    kept = {}
    if champion is not None and decision.alias == "challenger":
        kept = {"kept": "0"} if candidate.config.registry.promote == "never" else kept_facts(client, champion, number)
    set_facts(client, name, number, {**decision_tags(decision, champion), **kept})
    if decision.alias == "champion":
        set_champion(client, version, "evidence" if decision.evidence else "first", decision.reason)
    else:
        client.set_registered_model_alias(name, "challenger", str(number))
    set_facts(client, name, number, {"alias": decision.alias})


def decision_tags(decision: Decision, champion: RegistryVersion | None) -> dict[str, str]:
    tags = {"reason": decision.reason[:LONGEST_TAG]}
    if champion is not None:
        tags["parent_version"] = str(champion.number)
    if decision.best_version is not None:
        tags[BEST_VERSION] = str(decision.best_version)
    if decision.evidence is not None:
        tags["evidence"] = json.dumps(decision.evidence.model_dump())
    if decision.own_evidence is not None:
        tags["own_evidence"] = json.dumps(decision.own_evidence.model_dump())
    return tags


def kept_facts(client: "MlflowClient", champion: RegistryVersion, number: int) -> dict[str, str]:
    """Return the number of successive runs that kept the champion, including this run, and since when."""
    others = [one for one in read_versions(client, champion.name) if one.number != number]
    since = kept_since(others, champion.number) or datetime.now(UTC).isoformat(timespec="seconds")
    return {"kept": str(1 + kept_before(others, champion.number)), "kept_since": since}


def report(client: "MlflowClient", name: str, number: int) -> RegisteredVersion:
    """Return the version with its current alias, which may have changed since the registration."""
    versions = {version.number: version for version in read_versions(client, name)}
    version, champion = versions[number], champion_of(client, name)
    before = max((other for other in versions if other < number), default=None)
    alias: Alias = "champion" if champion and champion.number == number else "challenger"
    reason = version.facts.get("reason", "")
    if alias != version.facts.get("alias"):
        holder = f"; the champion is version {champion.number}" if champion and champion.number != number else ""
        reason = f"now {alias}, but registered as {version.facts.get('alias')} ({reason}){holder}"
    if alias == "champion":
        rival = versions.get(version.parent or 0)
    else:
        rival = versions.get(champion.number) if champion else None
    return RegisteredVersion(
        name=name,
        version=number,
        alias=alias,
        reason=reason,
        # If the alias has moved to a later version, the number is used, because the alias does not identify this
        # version.
        uri=f"models:/{name}@{alias}" if alias in version.aliases else version.uri,
        evidence=version.evidence,
        own_evidence=version.own_evidence,
        kept=version.kept if alias == "challenger" else 0,
        kept_since=version.facts.get("kept_since", "") if alias == "challenger" else "",
        created=version.created,
        before=None if before is None else versions[before].listed(),
        rival=rival.listed() if rival else None,
    )
