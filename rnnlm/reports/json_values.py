"""The values that commands print with --json. A run, a score or a registered version has the same form in all commands.

docs/reference/json.md lists the names. A test compares this list with the output of the commands.
"""

from typing import Any

from rnnlm.registry.champion_history import Change
from rnnlm.registry.lineage import VersionDetails
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.result_records import ListedVersion, PreparedRecord, SplitScore, TrainedRecord
from rnnlm.tracking.run_comparison import RunComparison, RunOverview


def prepared_value(record: PreparedRecord) -> dict[str, Any]:
    """Return a prepared corpus in the form that `rnnlm prepare` prints."""
    corpus, dataset = record.corpus, record.dataset
    stages = {"corpus": corpus, "tokenizer": record.tokenizer, "sequences": dataset}
    return {
        "corpus": dataset.corpus_name,
        "corpus_digest": dataset.corpus_digest,
        "corpus_source": corpus.source,
        "corpus_bytes": corpus.corpus_bytes,
        "corpus_folder": str(corpus.folder),
        "left_out": [one.model_dump() for one in corpus.left_out],
        "tokenizer_kind": record.tokenizer.kind,
        "vocabulary_size": dataset.vocabulary_size,
        "dataset_id": dataset.dataset_id,
        "dataset_folder": str(dataset.folder),
        "train_tokens": dataset.predicted_tokens["train"],
        "validation_tokens": dataset.predicted_tokens["valid"],
        "test_tokens": dataset.predicted_tokens["test"],
        "warnings": list(record.score_warnings),
        "skipped": [name for name, stage in stages.items() if stage.skipped],
        "seconds": {name: round(stage.seconds, 3) for name, stage in stages.items()},
    }


def run_value(record: TrainedRecord, dataset: DatasetRecord) -> dict[str, Any]:
    """Return a run with its scores and its registered version, in the form that run, train and mix print."""
    test = record.evaluation.scores["test"]
    parts = part_figures(test)
    return {
        "run_id": record.run.run_id,
        "run_folder": str(record.run.folder),
        "mlflow_run_id": record.run.mlflow_run_id,
        "members": [member.model_dump() for member in record.run.members],
        "corpus": dataset.corpus_name,
        "corpus_digest": dataset.corpus_digest,
        "dataset_id": dataset.dataset_id,
        "model_name": record.registered.name,
        "model_version": record.registered.version,
        "alias": record.registered.alias,
        "reason": record.registered.reason,
        "skipped": [name for name, stage in record.stages.items() if stage.skipped],
        "train_tokens": dataset.predicted_tokens["train"],
        "validation_perplexity": record.evaluation.scores["valid"].perplexity,
        "test_perplexity": test.perplexity,
        "bits_per_byte": test.bits_per_byte,
        "unknown_rate": test.unknown_rate,
        "uniform_perplexity": test.uniform_perplexity,
        "unigram_perplexity": test.unigram_perplexity,
        "network_test_perplexity": parts["network_perplexity"],
        "network_bits_per_byte": parts["network_bits_per_byte"],
        "counts_test_perplexity": parts["counts_perplexity"],
        "counts_bits_per_byte": parts["counts_bits_per_byte"],
        "counting_seconds": parts["counting_seconds"],
        "seeds": record.seeds and record.seeds.model_dump(),
        "samples": [sample.model_dump() for sample in record.samples.samples],
        "seconds": {name: round(stage.seconds, 3) for name, stage in record.stages.items()},
    }


def part_figures(score: SplitScore) -> dict[str, Any]:
    """Return the scores of the network and of the n-gram model, each of which is null if the part does not exist.

    The scores of a network without an n-gram model are also those of the whole model.
    """
    network, counts = score.network or score, score.counts
    return {
        "network_perplexity": network.perplexity,
        "network_bits_per_byte": network.bits_per_byte,
        "counts_perplexity": counts.perplexity if counts else None,
        "counts_bits_per_byte": counts.bits_per_byte if counts else None,
        "counting_seconds": counts.seconds if counts else None,
    }


def score_value(score: SplitScore) -> dict[str, Any]:
    """Return the score of a model on a split, in the form that `rnnlm evaluate` prints."""
    value = score.model_dump(exclude={"network", "counts", "model"})
    return {"scored": score.model, **value, **part_figures(score)}


def overview_value(run: RunOverview) -> dict[str, Any]:
    """Return a run in the form that `rnnlm runs` prints."""
    value = run.model_dump(exclude={"corpus", "members"})
    return {**value, "corpus_source": run.corpus, "member_count": run.members}


def comparison_value(comparison: RunComparison) -> dict[str, Any]:
    value = comparison.model_dump(mode="json", exclude={"runs"})
    return {"runs": [overview_value(run) for run in comparison.runs], **value}


def version_value(version: ListedVersion) -> dict[str, Any]:
    """Return a registered version in the form that `rnnlm models` prints."""
    value = version.model_dump(exclude={"name", "version"})
    return {"model_name": version.name, "model_version": version.version, **value}


def details_value(details: VersionDetails) -> dict[str, Any]:
    """Return all information in the registry about a version, in the form that `rnnlm models show` prints."""
    value = details.model_dump(mode="json", exclude={"listed", "corpus", "parents", "changes", "source"})
    corpus = {"corpus" if name == "name" else f"corpus_{name}": fact for name, fact in details.corpus.items()}
    parents = [
        {"model_version": parent.version, **parent.model_dump(exclude={"version"})} for parent in details.parents
    ]
    changes = [change_value(details.listed.name, change) for change in details.changes]
    listed = version_value(details.listed)
    return {**listed, **value, **corpus, "artifacts": details.source, "parents": parents, "changes": changes}


def change_value(name: str, change: Change) -> dict[str, Any]:
    """Return a change of champion in the form that promote and rollback print."""
    return {"model_name": name, "model_version": change.version, **change.model_dump(exclude={"version"})}
