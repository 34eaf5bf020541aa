"""Candidates for registration, and the tags that identify a version and record its origin.

MLflow's search finds versions by their tags (`tags.dataset_id = '…'`). All values are strings.
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel

from rnnlm.config import CorpusConfig, PipelineConfig, RegistryConfig, changes_results
from rnnlm.config.moved_settings import flatten
from rnnlm.corpora.source_names import absolute_source, as_stored
from rnnlm.registry.bundle import LIBRARY, model_digest
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, digest_of, read_json
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.redaction import redacted
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.storage.stage_folders import CorpusFolder
from rnnlm.storage.stages import STAGE_VERSIONS
from rnnlm.tokenizers.text_tokenizer import SETTINGS_FILE
from rnnlm.tracking.mlflow_store import is_embedded

PERPLEXITIES = {"train": "train_perplexity", "valid": "validation_perplexity", "test": "test_perplexity"}
SETTINGS = "settings"  # The metadata entry with a digest of the run's settings; see settings_fact().
SETTING_SECTIONS = ("corpus", "tokenizer", "sequences", "model", "training")
LONGEST_TAG = 5_000  # The maximum number of characters of a tag in MLflow's database.


@dataclass(frozen=True)
class Candidate:
    """A finished run with all information that the registration records."""

    config: PipelineConfig
    dataset: DatasetRecord
    run: RunRecord
    evaluation: EvaluationRecord
    samples: SamplesRecord
    # The given configuration if rnnlm then chose settings such as the network's size, or None if it chose none.
    told: PipelineConfig | None = None

    @property
    def given(self) -> PipelineConfig:
        """The configuration as given by the user, before any settings were chosen."""
        return self.told or self.config


def registered_name(config: RegistryConfig, corpus_name: str) -> str:
    """Return the configured name.

    Its default is `rnnlm-<corpus name>`, so that each corpus has one registered model.
    """
    return config.model_name or f"rnnlm-{corpus_name}"


def identity_tags(candidate: Candidate) -> dict[str, str]:
    """Return the tags that identify a version. Versions with equal tags have the same model, code and scores."""
    dataset, run, scores = candidate.dataset, candidate.run, candidate.evaluation.scores
    return {
        "run_id": run.run_id,
        "dataset_id": dataset.dataset_id,
        "corpus_name": dataset.corpus_name,
        "corpus_digest": dataset.corpus_digest,
        **{PERPLEXITIES[split]: repr(score.perplexity) for split, score in scores.items()},
        "bits_per_byte": repr(scores["test"].bits_per_byte),
        "unknown_rate": repr(scores["test"].unknown_rate),
        "model_sha256": model_digest(run.model_folder),
        "code_version": importlib.metadata.version("rnnlm"),
        "bundle_version": str(STAGE_VERSIONS["bundle"]),
    }


def origin_tags(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> dict[str, str]:
    """Return the tags about the origin of the corpus, such as its source and digest. Unknown values have no tag."""
    with connect(dataset) as connection:
        (origin,) = table(connection, "queries/read_origin", {})
    corpus = CorpusFolder(corpus_folder(home, dataset)).facts
    settings = read_json(dataset.tokenizer_folder / SETTINGS_FILE) or {}
    found: dict[str, str | None] = {
        **source_facts(home, config.corpus),
        "corpus_bytes": str(origin["corpus_bytes"]),
        "corpus_licence": corpus.get("licence"),
        "tokenizer": settings.get("kind"),
        "tokenizer_digest": origin["tokenizer_digest"],
        "vocabulary_size": str(dataset.vocabulary_size),
        "mode": dataset.mode,
        "git_commit": git_commit(),
        "configuration": short_configuration(config),
    }
    return {name: value for name, value in found.items() if value}


def settings_fact(config: PipelineConfig) -> str:
    """Return a digest of the settings that differ from the defaults and may change the model for a given source."""
    dump = config.model_dump(mode="json", exclude_defaults=True)
    found = {name: dump[name] for name in SETTING_SECTIONS if name in dump}
    for name in ("source", "name", "sha256", "refresh"):
        found.get("corpus", {}).pop(name, None)
    can_change = {
        path: value
        for path, value in flatten({name: values for name, values in found.items() if values}).items()
        if setting_changes_results(path) or path == "training.minutes"
    }
    return digest_of(can_change)[:16]


def setting_changes_results(path: str) -> bool:
    """Return True if results depend on the setting, which is given by a path such as training.optimizer.clip_norm."""
    section: type[BaseModel] = PipelineConfig
    for name in path.split("."):
        field = section.model_fields.get(name)
        if field is None or not changes_results(field):
            return field is None  # The path names an entry of a dictionary or list instead of a field.
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            section = field.annotation
    return True


def source_facts(home: Home, corpus: CorpusConfig) -> dict[str, str]:
    """Return the source of the text: an address without secrets, or an absolute path and a path in the rnnlm home.

    If two addresses differ only in their secrets, the digests of their queries differ.
    """
    source = absolute_source(corpus.source)
    facts = {"corpus_source": redacted(source)}
    if "://" in source and (query := urlsplit(source).query):
        facts["corpus_source"] += f" ({digest_of(query)[:8]})"
    # A path relative to the rnnlm home is stored only if no other home shares the registry.
    if Path(source).is_absolute() and is_embedded(home):
        facts["corpus_from_home"] = f"RNNLM_HOME/{os.path.relpath(source, home.root.resolve())}"
    return facts


def corpus_folder(home: Home, dataset: DatasetRecord) -> Path:
    """Return the folder with the dataset's text."""
    return inside(home.corpora, dataset.corpus_digest[:16])


def short_configuration(config: PipelineConfig) -> str:
    """Return the settings that differ from the defaults, as JSON. The version's evidence contains all settings."""
    text = json.dumps(as_stored(config).model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    return text if len(text) <= LONGEST_TAG else "too long for a tag: see evidence/configuration.json"


def git_commit() -> str | None:
    """Return the commit of the checkout of rnnlm, with `-dirty` if files differ from the commit.

    Without a checkout or without git, the result is None.
    """
    checkout = LIBRARY.parent
    git = shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return None
    command = [git, "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.stdout.strip() or None
