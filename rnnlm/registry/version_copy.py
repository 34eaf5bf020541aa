"""Promotion of a version into another registry, such as from a development server to a production server."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.config.pipeline_config import TrackingConfig
from rnnlm.errors import ConfigError, ModelError
from rnnlm.models.own_layers import note, own_kinds
from rnnlm.registry.bundle import BUNDLE, find_bundle_damage, local_artifacts
from rnnlm.registry.champion_history import PROMOTION_TAG, Change, read_history, set_champion
from rnnlm.registry.logged_models import create_version, new_logged_model
from rnnlm.registry.model_lookup import fetched
from rnnlm.registry.promotion import BEST_VERSION
from rnnlm.registry.promotion_commands import checked_reason, version_to_promote
from rnnlm.registry.registration import described_model, is_decided
from rnnlm.registry.registry_lock import SQLITE, registry_lock
from rnnlm.registry.registry_version import RegistryVersion, champion_of, read_versions, set_facts
from rnnlm.registry.stored_versions import delete_unfinished
from rnnlm.storage.home import Home, checked_home, expanded, read_json
from rnnlm.storage.redaction import redacted
from rnnlm.tracking.mlflow_store import (
    address_problem,
    embedded_uri,
    experiment_id,
    ignoring,
    reaching_mlflow,
    registry_uri,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)
# The entries of the metadata that describe decisions in the first registry. They are not copied, because its version
# numbers mean other versions elsewhere.
OF_ONE_REGISTRY = (
    *("alias", "reason", "parent_version", "evidence", "own_evidence", "kept", "kept_since", "replaced_by"),
    *("logged_model_id", "started_from", BEST_VERSION),
    "corpus_from_home",  # The path of the text relative to the first rnnlm home.
)
SOURCE = "promoted_from"  # The entry of the metadata with the first registry, name and number of a copied version.
# The metrics of an MLflow run, by the entry of the metadata that contains the same number.
COPIED_SCORES = {
    "test_perplexity": "test_perplexity",
    "bits_per_byte": "test_bits_per_byte",
    "validation_perplexity": "validation_perplexity",
}
STORES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")


def promote_elsewhere(home: Home, name: str, wanted: str, target: str, reason: str = "") -> Change:
    """Copy a version with its bundle and evidence to another registry, and make it champion there.

    A version that was copied before is not copied again. Raise ModelError if the version does not exist, is damaged or
    already champion there. Raise ConfigError if `target` is this registry, or neither an address nor an rnnlm home.

    Args:
        home: The rnnlm home.
        name: The name of the registered model, which is the same in both registries.
        wanted: The number or the alias of the version in this registry.
        target: The address of an MLflow server, or the folder of another rnnlm home.
        reason: The reason for the promotion, which is stored with the version.
    """
    why = checked_reason(reason)
    version = version_to_promote(home, name, wanted)
    artifacts = local_artifacts(version) or fetched(home, version)
    if damage := find_bundle_damage(version, artifacts):
        raise ModelError(
            f"{version.uri}: {artifacts}: {damage}; `rnnlm run` with the version's settings writes the files again"
        )
    origin = f"{redacted(registry_uri(home))} {name}/{version.number}"
    with other_store(home, target) as there, reaching_mlflow(there) as client:
        with ignoring("RESOURCE_ALREADY_EXISTS"):
            corpus = version.facts.get("corpus_name", name)
            client.create_registered_model(name, description=described_model(corpus))
        with registry_lock(there, name):
            known = (one for one in read_versions(client, name) if one.facts.get(SOURCE) == origin)
            copied = next((one for one in known if is_same_model(one, version)), None)
            if copied is None:
                copied = copy_version(client, there, version, artifacts, origin)
                logger.info(
                    "%s version %s: copied to %s as version %s", name, version.number, redacted(target), copied.number
                )
            champion = champion_of(client, name)
            if champion is not None and champion.number == copied.number:
                if is_decided(copied):
                    raise ModelError(f"{name} version {version.number}: is already the champion in {redacted(target)}")
                # An earlier promotion was killed before it recorded the alias.
                set_facts(client, name, copied.number, {"alias": "champion"})
                return read_history(read_versions(client, name))[-1]
            # Promoting a version into a home also permits the home to import the version's custom layers.
            note(there, own_kinds(read_json(artifacts / BUNDLE / "config.json") or {}))
            set_facts(client, name, copied.number, {"reason": f"promoted by hand: {why}"})
            change = set_champion(client, copied, "hand", why)
            set_facts(client, name, copied.number, {"alias": "champion"})
            return change


@contextmanager
def other_store(home: Home, target: str) -> Iterator[Home]:
    """Make `target` the store of MLflow inside the context, and yield the rnnlm home that belongs to it.

    A server has no rnnlm home, so the locks are held in the current rnnlm home.
    """
    here, there, address = registry_uri(home), home, target
    if "://" not in target:
        there = checked_home(expanded(target).resolve())
        address = embedded_uri(there)
        # The target must be an rnnlm home or an empty folder, so that a mistyped path does not become a home.
        if not target or not is_home(there):
            raise ConfigError(
                f"--to {target}: expected the address of an MLflow server, or the folder of an rnnlm home;\n"
                "for a new home, make an empty folder first"
            )
    else:
        # A database without a server is refused, because the version's files would stay on this machine.
        is_server = target.startswith(("http://", "https://"))
        problem = address_problem(target) if is_server else "expected an address such as http://mlflow.example.org:5000"
        if problem:
            raise ConfigError(f"--to {redacted(target)}: {problem}, or the folder of an rnnlm home")
    before = {name: os.environ.pop(name) for name in STORES if name in os.environ}
    # The variable is set, because parts of MLflow read it even if a client has another address.
    os.environ["MLFLOW_TRACKING_URI"] = address
    try:
        if store_of(address) == store_of(here):
            raise ConfigError(
                f"--to {redacted(target)}: this is the current registry; leave out --to to promote a version in it"
            )
        yield there
    finally:
        for name in STORES:
            os.environ.pop(name, None)
        os.environ.update(before)


def is_home(home: Home) -> bool:
    """Return True if the folder is an rnnlm home, or is empty and may become one."""
    is_used = home.mlflow_database.exists() or (home.root / "locks").is_dir()
    return is_used or (home.root.is_dir() and not any(home.root.iterdir()))


def store_of(address: str) -> str:
    """Return an equal text for addresses of the same store, without passwords and final slashes."""
    if address.startswith(SQLITE):
        return str(Path(address.removeprefix(SQLITE)).resolve())
    return redacted(address).rstrip("/")


def is_same_model(one: RegistryVersion, other: RegistryVersion) -> bool:
    """Return True if the versions have the same weights, n-gram model and code."""
    return all(one.facts.get(fact) == other.facts.get(fact) for fact in ("model_sha256", "code_version"))


def copy_version(
    client: "MlflowClient", home: Home, version: RegistryVersion, artifacts: Path, origin: str
) -> RegistryVersion:
    """Add a copy of the version without an alias to the store of `client`, and return it.

    Args:
        client: The client of the store.
        home: The rnnlm home that belongs to the store.
        version: The version in the other registry.
        artifacts: The folder of the version's files, which are uploaded unchanged.
        origin: The value of the SOURCE entry, which names the original version.
    """
    facts = {
        fact: value
        for fact, value in version.facts.items()
        if fact not in OF_ONE_REGISTRY and not fact.startswith(PROMOTION_TAG)
    }
    facts[SOURCE] = origin
    experiment = experiment_id(client, home, TrackingConfig().experiment)
    delete_unfinished(client, [experiment], version.name)
    mlflow_run_id = copy_run(client, experiment, version, facts)
    with new_logged_model(client, version.name, experiment, facts, None, mlflow_run_id) as (model_id, location):
        client.log_model_artifacts(model_id, str(artifacts))
    return create_version(client, version.name, location, model_id, facts, version.description, mlflow_run_id)


def copy_run(client: "MlflowClient", experiment: str, version: RegistryVersion, facts: dict[str, str]) -> str:
    """Add a finished MLflow run with the version's scores, and return its id. MLflow's pages link it to the version."""
    tags = {"corpus": facts.get("corpus_name", ""), SOURCE: facts[SOURCE]}
    named = f"{version.name} {version.number}, promoted"
    run_id = str(client.create_run(experiment, run_name=named, tags=tags).info.run_id)
    for fact, metric in COPIED_SCORES.items():
        if (score := version.figure(fact)) is not None:
            client.log_metric(run_id, metric, score)
    client.set_terminated(run_id)
    return run_id
