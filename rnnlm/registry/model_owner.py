"""Owners of registered models. A model belongs to the source of its first version; other sources get other names.

If a version was registered under an explicit `registry.model_name`, its source becomes an owner, too.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rnnlm.config import PipelineConfig
from rnnlm.corpora.catalogue import CATALOGUE
from rnnlm.corpora.corpus_names import with_digest
from rnnlm.corpora.source_names import HUB_PREFIX, absolute_source
from rnnlm.errors import TrackingError
from rnnlm.registry.model_lookup import registered_versions
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.version_tags import Candidate, registered_name, source_facts
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord

logger = logging.getLogger(__name__)


def own_corpus_name(home: Home, config: PipelineConfig, name: str, digest: str = "") -> str:
    """Return the corpus name under which the configured source is registered.

    The result is `name`, followed by a digest of the source if the registered model of that name belongs to another
    source. If `registry.model_name` is set or MLflow fails, it is always `name`. `digest` is the sha256 of the text, or
    "" if it is unknown.
    """
    if config.registry.model_name:
        return name
    model = registered_name(config.registry, name)
    try:
        owner = other_owner(home, config, model, digest)
    except TrackingError:  # Training continues if MLflow is unavailable, because the registration repeats this check.
        return name
    if owner is None:
        return name
    source = source_facts(home, config.corpus)["corpus_source"]
    own = with_digest(name, source)
    logger.warning(
        "%s: %s is the model of %s; the model of this text is %s\n"
        "if both sources have the same text, add --set registry.model_name=%s",
        *(source, model, owner, registered_name(config.registry, own), model),
    )
    return own


def named_for_its_model(home: Home, config: PipelineConfig, corpus: CorpusRecord) -> CorpusRecord:
    """Return the corpus under the name of its registered model, which own_corpus_name() determines."""
    return corpus.model_copy(update={"name": own_corpus_name(home, config, corpus.name, corpus.digest)})


def with_own_name(home: Home, candidate: Candidate) -> Candidate:
    """Return the candidate under the corpus name that own_corpus_name() determines."""
    dataset = candidate.dataset
    name = own_corpus_name(home, candidate.config, dataset.corpus_name, dataset.corpus_digest)
    return replace(candidate, dataset=dataset.model_copy(update={"corpus_name": name}))


def other_owner(home: Home, config: PipelineConfig, model: str, digest: str = "") -> str | None:
    """Return the source that owns the registered model `model`, or None if this is the configured source.

    Two sources are the same if they have the same location, even in an rnnlm home that was moved, or if one of their
    texts was the same. Raise TrackingError if MLflow fails.
    """
    versions = [version for _, version in sorted(registered_versions(home, model).items()) if known_source(version)]
    owning = [version for version in versions if version is versions[0] or is_named(version)]
    places = places_of(owning)
    same_text = {version.facts.get("corpus_digest") for version in versions if places_of([version]) & places}
    if not owning or digest in same_text or places & set(source_facts(home, config.corpus).values()):
        return None
    return known_source(owning[-1])


def places_of(versions: Iterable[RegistryVersion]) -> set[str]:
    facts = {version.facts.get("corpus_from_home", "") for version in versions} - {""}
    return facts | {known_source(version) for version in versions}


def known_source(version: RegistryVersion) -> str:
    """Return the source of the version's text, or "" if it is unknown.

    The source is unknown if it is a relative path, as rnnlm 0.3 stored it.
    """
    source = version.facts.get("corpus_source", "")
    if source in CATALOGUE or "://" in source or source.startswith(HUB_PREFIX):
        return source
    # The path is resolved again, because it may have become a symbolic link after the registration.
    return absolute_source(source) if Path(source).is_absolute() else ""


def is_named(version: RegistryVersion) -> bool:
    """Return True if the settings of the version set registry.model_name."""
    settings = version.facts.get("configuration", "")
    return settings.startswith("{") and "model_name" in json.loads(settings).get("registry", {})
