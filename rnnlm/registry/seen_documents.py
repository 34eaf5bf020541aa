"""Files next to a version's bundle that identify its training text and the lines that were held out.

The files are needed when a later candidate is compared with the version on text that neither has seen. The version's
dataset may no longer exist at that time.
"""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rnnlm.config import CorpusConfig
from rnnlm.corpora.line_digests import chooses
from rnnlm.evaluation.paired.seen_text import write_seen_text
from rnnlm.registry.bundle import HELD_OUT_LINES, TRAINING_DOCUMENTS, evidence_file
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.version_tags import Candidate
from rnnlm.sequences.validation_lines import lines_of_validation
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stage_folders import ANCESTOR_DOCUMENTS

logger = logging.getLogger(__name__)


def write_training_documents(candidate: Candidate, path: Path) -> int | None:
    """Write the fingerprints of all documents and lines that the candidate has seen.

    They include text that earlier models have seen if training started from their weights. Return the number of
    documents. If this text is unknown for an earlier model, write no file and return None.
    """
    run = candidate.run
    ancestors = run.folder / ANCESTOR_DOCUMENTS if run.started_from else None
    if ancestors is not None and not ancestors.exists():
        return None
    return write_seen_text(candidate.dataset, path, ancestors)


def write_held_out_lines(dataset: DatasetRecord, path: Path) -> None:
    """Write the digests of the validation lines reserved for comparing models to a Parquet file of one column."""
    digests, _ = lines_of_validation(dataset)
    compared = np.unique(digests[~chooses(digests)])
    pq.write_table(pa.table({"digest": compared}), path, compression="zstd", use_dictionary=False)


def held_out_lines(bundle: Path) -> np.ndarray | None:
    """Return the sorted digests that write_held_out_lines() wrote next to a version's bundle, (lines,) uint64.

    Return None if the file is missing, as for older versions, or damaged.
    """
    path = evidence_file(bundle, HELD_OUT_LINES)
    if path is None:
        return None
    digests: np.ndarray = pq.read_table(path)["digest"].to_numpy()
    return digests


def saw_the_same_documents(one: Path, other: Path) -> bool:
    """Return True if two files of write_training_documents() list the same training documents."""
    documents = []
    for path in (one, other):
        table = pq.read_table(path)
        if "is_line" in table.column_names:
            table = table.filter(pc.invert(table["is_line"]))
        documents.append(pc.utf8_slice_codeunits(table["sha256"], 0, 16))
    return bool(documents[0].equals(documents[1]))


def cleaning_hides_text(candidate: CorpusConfig, earlier: RegistryVersion) -> str | None:
    """Return the reason why equal texts of the two corpora cannot be recognized as equal, or None if they can.

    Fingerprints do not depend on cleaning, unless digits were replaced by letters. Versions without fingerprints have
    digests of bytes, which change with any cleaning.
    """
    its = CorpusConfig.model_construct(**corpus_settings_in_tags(earlier))
    fields = ("normalization", "lowercase", "digits")
    different = [name for name in fields if getattr(candidate, name) != getattr(its, name)]
    if earlier.facts.get("document_digests", "").startswith("letters"):
        written = f"{candidate.digits or ''}{its.digits or ''}"
        different = ["digits"] if "digits" in different and any(map(str.isalpha, written)) else []
    if not different:
        return None
    names = ", ".join(f"corpus.{name}" for name in different)
    return f"{names} differs, so it is unknown which documents version {earlier.number} was trained on"


def lines_are_alike(candidate: CorpusConfig, earlier: RegistryVersion) -> bool:
    """Return True if equal lines of the two corpora have equal digests.

    The digest of a line depends on its digits, so both corpora must replace digits in the same way.
    """
    return candidate.digits == corpus_settings_in_tags(earlier).get("digits")


def corpus_settings_in_tags(version: RegistryVersion) -> dict[str, Any]:
    """Return the version's corpus settings that differ from the defaults, as stored in the version's tag."""
    try:
        settings: dict[str, Any] = json.loads(version.facts["configuration"]).get("corpus", {})
    # The settings are missing if an early release registered the version, or if they were too long for a tag.
    except (KeyError, ValueError):
        return {}
    return settings


def training_digests(version: RegistryVersion, bundle: Path) -> Path | None:
    """Return the file with the digests of the version's training documents, or None if there is no undamaged file."""
    if "training_documents" not in version.facts:
        return None
    path = evidence_file(bundle, TRAINING_DOCUMENTS)
    if path is None:
        logger.warning("%s version %s: its %s are missing", version.name, version.number, TRAINING_DOCUMENTS)
    return path
