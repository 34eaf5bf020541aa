"""The lineage of a version: its corpus, tokenizer, dataset, run and code, and the champions before it."""

from rnnlm.errors import ModelError
from rnnlm.registry.champion_history import Change, read_history
from rnnlm.registry.model_lookup import known_models, registered_versions
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.storage.home import Home
from rnnlm.storage.records import Record
from rnnlm.storage.result_records import Evidence, ListedVersion


class Ancestor(Record):
    """A version that was champion when its successor was registered."""

    version: int
    corpus_digest: str
    dataset_id: str
    run_id: str


class VersionDetails(Record):
    """All information in the registry about one version."""

    listed: ListedVersion
    # "champion" or "challenger", with the reason of the decision at registration, or "" if there was no decision.
    decision: str
    evidence: Evidence | None
    # The corpus. The keys are name, digest (sha256 of the text's bytes), source, bytes and licence.
    corpus: dict[str, str]
    tokenizer: dict[str, str]  # The tokenizer. The keys are kind, digest and vocabulary_size.
    dataset_id: str
    run_id: str
    mlflow_run_id: str
    code: dict[str, str]  # The code that registered the version. The keys are version and git_commit.
    tags: dict[str, str]  # All tags of the version in MLflow.
    source: str  # The location where MLflow stores the version's files.
    # The champion with which this version was compared, the champion with which that one was compared, and so on.
    parents: tuple[Ancestor, ...]
    changes: tuple[Change, ...]  # The promotions and rollbacks that made this version the champion.
    description: str  # The model card of the version.


def show_version(home: Home, name: str, version: str) -> VersionDetails:
    """Return the details of a version, given by number or alias. Raise ModelError if it does not exist."""
    found, wanted = registered_versions(home, name), version.removeprefix("@")
    for one in found.values():
        if wanted in (*one.aliases, str(one.number)):
            return details(one, found)
    raise ModelError(f"{name} {version}: no such version;\n{known_models(home)}")


def details(version: RegistryVersion, found: dict[int, RegistryVersion]) -> VersionDetails:
    tags = version.facts
    return VersionDetails(
        listed=version.listed(),
        decision=f"{tags['alias']}: {tags.get('reason', '')}" if "alias" in tags else "",
        evidence=version.evidence,
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
        mlflow_run_id=version.mlflow_run_id,
        code=picked(tags, version="code_version", git_commit="git_commit"),
        tags=tags,
        source=version.source,
        parents=tuple(ancestors(version, found)),
        changes=tuple(read_history([version])),
        description=version.description,
    )


def picked(tags: dict[str, str], **names: str) -> dict[str, str]:
    """Return a dictionary from each key of `names` to the tag that its value names. Missing tags are left out."""
    return {short: tags[long] for short, long in names.items() if long in tags}


def ancestors(version: RegistryVersion, found: dict[int, RegistryVersion]) -> list[Ancestor]:
    """Return the parent of a version, the parent's parent, and so on, as long as these versions exist."""
    line: list[Ancestor] = []
    parent = found.get(version.parent or 0)
    while parent is not None:
        tags = parent.facts
        line.append(
            Ancestor(
                version=parent.number,
                corpus_digest=tags.get("corpus_digest", ""),
                dataset_id=tags.get("dataset_id", ""),
                run_id=tags.get("run_id", ""),
            )
        )
        parent = found.get(parent.parent or 0)
    return line
