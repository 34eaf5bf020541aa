"""Registered versions and their metadata, which are stored as tags in MLflow.

Three entries of the metadata have their own tags, so that users can filter versions by them. MLflow's list of versions
shows the beginning of every tag. Therefore all other entries share a fourth tag, `facts`, which begins with the score
in words and ends with the entries as JSON. MLflow's search finds an entry by LIKE, such as ``tags.facts LIKE
'%"corpus_digest": "8c0ff25c%'``.
"""

import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rnnlm.storage.records import Record
from rnnlm.storage.result_records import Evidence, ListedVersion
from rnnlm.tracking.mlflow_store import all_pages

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

# The names of tags for the metadata entries that have their own tags. The `alias` entry is the alias at the time of the
# decision, and does not change afterwards.
SHOWN_FACTS = {"alias": "decision", "dataset_id": "dataset_id", "run_id": "run_id"}
# The tag with the perplexity on the test split in words, followed by a JSON object with all other entries.
FACTS = "facts"


class RegistryVersion(Record):
    """A version of a registered model as stored in MLflow."""

    name: str
    number: int
    # The metadata (see docs/reference/registry.md), or the tags of a version that another program registered.
    facts: dict[str, str] = {}
    aliases: tuple[str, ...] = ()
    created_ms: int = 0  # The time of registration, in milliseconds since 1970.
    mlflow_run_id: str = ""
    source: str = ""  # The location where MLflow stores the version's files.
    description: str = ""  # The model card of the version.

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.number}"

    @property
    def created(self) -> str:
        """The time of registration in ISO 8601, UTC."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC).isoformat(timespec="seconds")

    @property
    def parent(self) -> int | None:
        """The number of the champion with which the version was compared."""
        return int(self.facts["parent_version"]) if "parent_version" in self.facts else None

    @property
    def evidence(self) -> Evidence | None:
        """The evidence on which the decision about the version's alias was based."""
        value = self.facts.get("evidence")
        return Evidence(**json.loads(value)) if value else None

    @property
    def comparison(self) -> int | None:
        """The number of the comparison with the parent, or None if there was no evidence."""
        return json.loads(self.facts["evidence"]).get("comparison", 1) if "evidence" in self.facts else None

    @property
    def own_evidence(self) -> Evidence | None:
        """The evidence on the lines that the champion had held out from its training.

        It is None if the champion had held out all lines of `evidence`, or if its held-out lines are unknown.
        """
        value = self.facts.get("own_evidence")
        return Evidence(**json.loads(value)) if value else None

    @property
    def kept(self) -> int:
        """The number of runs in a row that kept the champion, including the run of this version."""
        return int(self.facts.get("kept", 0))

    def figure(self, fact: str) -> float | None:
        """Return a numeric entry of the metadata, or None if the version does not have the entry."""
        return float(self.facts[fact]) if fact in self.facts else None

    def listed(self) -> ListedVersion:
        return ListedVersion(
            name=self.name,
            version=self.number,
            aliases=self.aliases,
            validation_perplexity=self.figure("validation_perplexity"),
            test_perplexity=self.figure("test_perplexity"),
            bits_per_byte=self.figure("bits_per_byte"),
            dataset_id=self.facts.get("dataset_id", ""),
            created=self.created,
        )


def registry_version(version: "ModelVersion", aliases: dict[str, str] | None = None) -> RegistryVersion:
    """Return MLflow's model version as a RegistryVersion.

    `aliases` contains the version number of each alias, because MLflow's search does not return aliases.
    """
    number = int(version.version)
    return RegistryVersion(
        name=version.name,
        number=number,
        facts=facts_of(version.tags),
        aliases=tuple(sorted(alias for alias, holder in (aliases or {}).items() if int(holder) == number)),
        created_ms=version.creation_timestamp,
        mlflow_run_id=version.run_id or "",
        source=version.source or "",
        description=version.description or "",
    )


def read_version(client: "MlflowClient", name: str, number: int) -> RegistryVersion:
    return registry_version(client.get_model_version(name, str(number)), aliases_of(client, name))


def read_versions(client: "MlflowClient", name: str, filter_string: str = "") -> list[RegistryVersion]:
    """Return the versions of a registered model, which must exist, that match MLflow's filter."""
    aliases = aliases_of(client, name)
    found = all_pages(partial(client.search_model_versions, f"name = '{name}'{filter_string}"))
    return [registry_version(version, aliases) for version in found]


def aliases_of(client: "MlflowClient", name: str) -> dict[str, str]:
    return dict(client.get_registered_model(name).aliases)


def champion_of(client: "MlflowClient", name: str) -> RegistryVersion | None:
    number = aliases_of(client, name).get("champion")
    return read_version(client, name, int(number)) if number else None


def as_tags(facts: dict[str, str]) -> dict[str, str]:
    """Return the tags in which the metadata is stored."""
    others = {fact: value for fact, value in sorted(facts.items()) if fact not in SHOWN_FACTS}
    shown = {SHOWN_FACTS[fact]: value for fact, value in facts.items() if fact in SHOWN_FACTS}
    perplexity = f"test perplexity {float(facts['test_perplexity']):.2f} " if "test_perplexity" in facts else ""
    return shown | {FACTS: perplexity + json.dumps(others, ensure_ascii=False)}


def facts_of(tags: dict[str, str]) -> dict[str, str]:
    """Return the metadata in a version's tags.

    Versions of rnnlm 0.3 and older have one tag for each entry, with the same name.
    """
    facts_of_tags = {tag: fact for fact, tag in SHOWN_FACTS.items()}
    shown = {facts_of_tags.get(tag, tag): value for tag, value in tags.items() if tag != FACTS}
    return shown | other_facts(tags)


def other_facts(tags: dict[str, str]) -> dict[str, str]:
    """Return the metadata in the `facts` tag. The result is empty if another program wrote this tag."""
    text = tags.get(FACTS, "")
    try:
        found: dict[str, str] = json.loads(text[text.index("{") :])
    except ValueError:
        return {}
    return found


def set_facts(client: "MlflowClient", name: str, number: int, facts: dict[str, str | None]) -> None:
    """Set entries of a version's metadata. The value None removes an entry.

    The caller must hold the registered model's lock. All entries in the `facts` tag are set in one step.
    """
    version = str(number)
    tags = client.get_model_version(name, version).tags
    kept: dict[str, str | None] = dict(other_facts(tags))
    given = {fact: value for fact, value in (kept | facts).items() if value is not None}
    for tag, value in as_tags(given).items():
        if tags.get(tag) != value:
            client.set_model_version_tag(name, version, tag, value)
    # Remove the tags that rnnlm 0.3 or older wrote for these entries.
    for tag in (tags.keys() & facts.keys()).difference(SHOWN_FACTS.values()):
        client.delete_model_version_tag(name, version, tag)
