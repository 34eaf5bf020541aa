"""The documents that a version has seen in training: fingerprints beside its bundle.

Its dataset may be gone when a later candidate is compared with it. Models are compared on documents that neither has
seen.
"""

import json
import logging
from pathlib import Path
from typing import Any

from rnnlm.config import CorpusConfig
from rnnlm.evaluation.paired.holdout_documents import write_known_digests
from rnnlm.registry.bundle import TRAINING_DOCUMENTS, evidence_folder
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.version_tags import Candidate
from rnnlm.training.warm_start import ANCESTOR_DOCUMENTS

logger = logging.getLogger(__name__)


def write_training_documents(candidate: Candidate, path: Path) -> int | None:
    """Write the fingerprints of all documents that the candidate and its ancestors by warm start have seen.

    Returns their number; None, and no file, if it is unknown what an ancestor has seen.
    """
    run, sample_tokens = candidate.run, candidate.config.training.validation.tokens
    ancestors = run.folder / ANCESTOR_DOCUMENTS if run.started_from else None
    if ancestors is not None and not ancestors.exists():
        return None
    return write_known_digests(candidate.dataset, sample_tokens, path, ancestors)


def cleaning_hides_text(candidate: CorpusConfig, earlier: RegistryVersion) -> str | None:
    """The reason why equal texts of the two corpora cannot be recognised; None if they can.

    Fingerprints ignore cleaning unless digits became letters. Digests of bytes, which versions registered before
    fingerprints have, change with any cleaning.
    """
    its = CorpusConfig.model_construct(**corpus_settings_in_tags(earlier))
    fields = ("normalization", "lowercase", "digits")
    different = [name for name in fields if getattr(candidate, name) != getattr(its, name)]
    if earlier.facts.get("document_digests") == "letters":
        written = f"{candidate.digits or ''}{its.digits or ''}"
        different = ["digits"] if "digits" in different and any(map(str.isalpha, written)) else []
    if not different:
        return None
    names = ", ".join(f"corpus.{name}" for name in different)
    return f"{names} differs, so it is unknown which documents version {earlier.number} was trained on"


def corpus_settings_in_tags(version: RegistryVersion) -> dict[str, Any]:
    """The version's corpus settings that differ from the defaults, from its tag."""
    try:
        settings: dict[str, Any] = json.loads(version.facts["configuration"]).get("corpus", {})
    except (KeyError, ValueError):  # registered by an early version, or too long for a tag
        return {}
    return settings


def training_digests(version: RegistryVersion, bundle: Path) -> Path | None:
    """The file with the digests of the version's training documents, in its artifacts; None if it has none."""
    if "training_documents" not in version.facts:
        return None
    path = evidence_folder(bundle) / TRAINING_DOCUMENTS
    if not path.exists():
        logger.warning("%s version %s: %s is missing", version.name, version.number, path)
        return None
    return path
