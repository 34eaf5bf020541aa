"""The lineage of a version: corpus, tokenizer, dataset, run, code, and the champions before it."""

from typing import TYPE_CHECKING

from rnnlm.errors import ModelError
from rnnlm.home import Home
from rnnlm.registry.champion_history import Change, read_history
from rnnlm.registry.model_lookup import known_models, listed, registered_versions
from rnnlm.registry.tag_names import evidence_of, facts_of
from rnnlm.storage.records import Evidence, ListedVersion, Record
from rnnlm.tracking.mlflow_store import reaching_mlflow

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


class Ancestor(Record):
    """A version that was champion when its successor was registered."""

    version: int
    corpus_digest: str
    dataset_id: str
    run_id: str


class VersionDetails(Record):
    """Everything that the registry knows of one version."""

    listed: ListedVersion
    decision: str  # champion or challenger when registered, and why; "" if nothing was decided
    evidence: Evidence | None
    corpus: dict[str, str]  # name, digest (sha256 of the text's bytes), source, bytes, licence
    tokenizer: dict[str, str]  # kind, digest, vocabulary_size
    dataset_id: str
    run_id: str
    mlflow_run_id: str
    code: dict[str, str]  # version, git_commit
    tags: dict[str, str]  # all of them
    source: str  # where MLflow keeps its files
    parents: tuple[Ancestor, ...]  # the champion it was compared with, that one's, … back to the first
    changes: tuple[Change, ...]  # each time that it became champion
    description: str  # the model card


def show_version(home: Home, name: str, version: str) -> VersionDetails:
    """By number or alias. ModelError if it does not exist."""
    aliases: dict[str, str] = {}
    if found := registered_versions(home, name):
        with reaching_mlflow(home) as client:
            aliases = dict(client.get_registered_model(name).aliases)
    number = str(aliases.get(version.removeprefix("@"), version))
    chosen = found.get(int(number)) if number.isdecimal() else None
    if chosen is None:
        raise ModelError(f"{name} {version}: no such version;\n{known_models(home)}")
    return details(chosen, found, aliases)


def details(version: "ModelVersion", found: "dict[int, ModelVersion]", aliases: dict[str, str]) -> VersionDetails:
    tags = facts_of(version)
    history = read_history(list(found.values()))
    return VersionDetails(
        listed=listed(version, aliases),
        decision=f"{tags['alias']}: {tags.get('reason', '')}" if "alias" in tags else "",
        evidence=evidence_of(version),
        corpus=picked(
            tags,
            name="corpus_name",
            digest="corpus_digest",
            source="corpus_source",
            bytes="corpus_bytes",
            licence="corpus_licence",
        ),
        tokenizer=picked(tags, kind="tokenizer", digest="tokenizer_digest", vocabulary_size="vocabulary_size"),
        dataset_id=tags.get("dataset_id", ""),
        run_id=tags.get("run_id", ""),
        mlflow_run_id=version.run_id or "",
        code=picked(tags, version="code_version", git_commit="git_commit"),
        tags=tags,
        source=version.source,
        parents=tuple(ancestors(version, found)),
        changes=tuple(change for change in history if change.version == int(version.version)),
        description=version.description or "",
    )


def picked(tags: dict[str, str], **names: str) -> dict[str, str]:
    """The existing tags under shorter names."""
    return {short: tags[long] for short, long in names.items() if long in tags}


def ancestors(version: "ModelVersion", found: "dict[int, ModelVersion]") -> list[Ancestor]:
    """From parent to parent, back to the first version or a deleted one."""
    line: list[Ancestor] = []
    number = facts_of(version).get("parent_version")
    while number is not None and (parent := found.get(int(number))) is not None:
        tags = facts_of(parent)
        line.append(
            Ancestor(
                version=int(number),
                corpus_digest=tags.get("corpus_digest", ""),
                dataset_id=tags.get("dataset_id", ""),
                run_id=tags.get("run_id", ""),
            )
        )
        number = tags.get("parent_version")
    return line
