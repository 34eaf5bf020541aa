"""Every version stores the digest of its corpus. MLflow's search finds a version by its tags."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.registry import version_tags
from rnnlm.registry.lineage import show_version
from rnnlm.registry.model_lookup import best_versions, list_models, of_dataset
from rnnlm.reports.registry_page import evidence_report, lineage_report
from rnnlm.storage.home import Home, file_digest
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.rnnlm.registry.contest import NAME, Contest
from tests.rnnlm.registry.test_champion_comparison import evidence_folder


@pytest.mark.long
def test_a_version_leads_back_to_the_bytes_of_the_corpus(decided: Contest) -> None:
    details = show_version(decided.home, NAME, "3")
    corpus = decided.home.corpora / details.corpus["digest"][:16]
    splits = {split: file_digest(corpus / f"{split}.txt") for split in ("train", "valid", "test")}
    lines = "".join(f"{split} {digest}\n" for split, digest in splits.items())
    assert hashlib.sha256(lines.encode()).hexdigest() == details.corpus["digest"]
    assert int(details.corpus["bytes"]) == sum(path.stat().st_size for path in corpus.glob("*.txt"))
    assert details.corpus["source"] == decided.config.corpus.source
    assert details.tokenizer["kind"] == "word"
    assert details.tokenizer["digest"][:16] in {path.name for path in decided.home.tokenizers.iterdir()}
    assert details.dataset_id == decided.dataset.dataset_id
    assert details.run_id == decided.run_of("fair").run_id
    with reaching_mlflow(decided.home) as client:
        assert client.get_run(details.mlflow_run_id).data.tags["rnnlm.run_id"] == details.run_id
    assert [parent.version for parent in details.parents] == [2, 1]
    assert [parent.run_id for parent in details.parents] == [decided.run_of(name).run_id for name in ("good", "poor")]
    assert details.parents[-1].corpus_digest == decided.dataset.corpus_digest


@pytest.mark.long
def test_a_version_has_its_perplexities_configuration_and_code(decided: Contest) -> None:
    details = show_version(decided.home, NAME, "champion")
    for split, tag in (("valid", "validation_perplexity"), ("test", "test_perplexity")):
        assert float(details.tags[tag]) == decided.evaluation.scores[split].perplexity
    assert details.code["version"]
    kept = json.loads((evidence_folder(decided.home, 1) / "configuration.json").read_text())
    assert PipelineConfig(**kept) == decided.config
    short = json.loads(details.tags["configuration"])
    assert PipelineConfig(**short) == decided.config  # Settings that are left out have their defaults.


@pytest.mark.long
def test_mlflows_own_search_finds_versions_by_their_tags(decided: Contest) -> None:
    dataset = decided.dataset.dataset_id
    with reaching_mlflow(decided.home) as client:
        for filter_string, versions in {
            f"name = '{NAME}' and tags.dataset_id = '{dataset}'": [1, 2, 3],
            f'tags.facts LIKE \'%"corpus_digest": "{decided.dataset.corpus_digest}"%\'': [1, 2, 3],
            'tags.facts LIKE \'%"parent_version": "1"%\'': [2],
            f"tags.run_id = '{decided.run_of('poor').run_id}' and tags.decision = 'champion'": [1],
            f"name = '{NAME}' and tags.decision = 'challenger'": [3],
            "tags.dataset_id = 'another'": [],
        }.items():
            found = client.search_model_versions(filter_string)
            assert sorted(int(version.version) for version in found) == versions, filter_string


@pytest.mark.long
def test_the_best_is_the_lowest_perplexity_of_each_dataset(decided: Contest) -> None:
    figures = ((9.0, "bb22"), (7.5, "aa11"), (9.5, "aa11"))
    versions = [
        version.model_copy(update={"validation_perplexity": perplexity, "dataset_id": dataset})
        for version, (perplexity, dataset) in zip(list_models(decided.home), figures, strict=True)
    ]
    assert [version.version for version in best_versions(versions)] == [3, 2]
    assert [version.version for version in of_dataset(versions, "aa11")] == [2, 1]
    assert [version.version for version in of_dataset(versions, "/home/datasets/aa11")] == [2, 1]
    assert of_dataset(versions, "cc") == []
    unknown = versions[0].model_copy(update={"validation_perplexity": None, "dataset_id": "dd"})
    assert best_versions([unknown]) == []


@pytest.mark.long
@pytest.mark.parametrize(("name", "version"), [(NAME, "7"), (NAME, "winner"), ("nobody", "1")])
def test_a_missing_version_is_an_error_with_the_right_names(decided: Contest, name: str, version: str) -> None:
    with pytest.raises(ModelError, match=f"registered: {NAME}"):
        show_version(decided.home, name, version)


def test_a_version_of_another_program_is_shown_without_our_facts(tracked_home: Home) -> None:
    with reaching_mlflow(tracked_home) as client:
        client.create_registered_model("theirs")
        client.create_model_version("theirs", "file:///somewhere")
    details = show_version(tracked_home, "theirs", "1")
    assert (details.parents, details.evidence, details.corpus) == ((), None, {})
    assert "theirs 1 (no alias)" in lineage_report(details)


@pytest.mark.long
def test_the_report_holds_the_facts(decided: Contest) -> None:
    text = lineage_report(show_version(decided.home, NAME, "2"))
    for fact in (
        f"{NAME} 2 (champion)",
        "champion: better: ",
        "model.hidden_size=16",
        decided.dataset.corpus_digest,
        decided.dataset.dataset_id,
        f"parent     version 1, run {decided.run_of('poor').run_id}",
        "by evidence, in place of version 1",
        "validation ",
        f"word, {decided.dataset.vocabulary_size:,} ids",
    ):
        assert fact in text, fact
    # If the run is registered again, the current state of the version is returned.
    registered = decided.register("good")
    assert registered.evidence is not None
    page = evidence_report(registered.evidence)
    evidence = registered.evidence
    assert f"| {evidence.candidate_nats_per_byte:.4f} | {evidence.champion_nats_per_byte:.4f} |" in page


def test_the_commit_is_that_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_tags, "LIBRARY", tmp_path / "rnnlm")
    assert version_tags.git_commit() is None
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    commit = git("rev-parse", "HEAD")
    assert version_tags.git_commit() == commit
    (tmp_path / "file").write_text("two")
    assert version_tags.git_commit() == f"{commit}-dirty"
