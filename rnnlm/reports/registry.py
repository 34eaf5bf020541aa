"""What people read about registered models: the registration's report, the list of versions, one version's lineage."""

from typing import TYPE_CHECKING, Any

from rnnlm.records import EvaluationRecord, Evidence, ModelVersion, RegisteredVersion
from rnnlm.reports.layout import Facts, facts, markdown_lines

if TYPE_CHECKING:  # at run time they would bring torch along
    from rnnlm.registry.history import Change
    from rnnlm.registry.lineage import VersionDetails


def registration_report(registered: RegisteredVersion, evaluation: EvaluationRecord) -> str:
    rows: Facts = [
        ("model", f"`{registered.name}`"),
        ("version", registered.version),
        ("alias", f"`{registered.alias}`: {registered.reason}"),
        ("load it by", f"`{registered.uri}`"),
        ("test perplexity", f"{evaluation.scores['test'].perplexity:.2f}"),
    ]
    report = facts("Registered", registered, rows)
    return f"{report}\n\n{evidence_table(registered.evidence)}" if registered.evidence else report


def evidence_table(evidence: Evidence) -> str:
    """Markdown: both on the same documents, and what the difference is worth."""
    rows = [
        ("candidate", f"{evidence.candidate_nats_per_byte:.4f}"),
        ("champion", f"{evidence.champion_nats_per_byte:.4f}"),
        ("difference", f"{evidence.difference:+.4f}"),
        (f"{evidence.confidence:.0%} of the resamples lie above", f"{evidence.lower:+.4f}"),
        (f"{evidence.confidence:.0%} of the resamples lie below", f"{evidence.upper:+.4f}"),
    ]
    said = (
        f"{evidence.documents:,} validation documents that neither was trained on, {evidence.byte_count:,} bytes; "
        f"{evidence.resamples:,} resamples of {evidence.units:,} units."
    )
    return f"### Candidate against champion\n\n{markdown_lines(('', 'nats per byte'), rows)}\n\n{said}"


def model_row(version: ModelVersion) -> dict[str, Any]:
    return {
        "name": version.name,
        "version": version.version,
        "aliases": ", ".join(version.aliases),
        "validation perplexity": ""
        if version.validation_perplexity is None
        else f"{version.validation_perplexity:.2f}",
        "dataset": version.dataset_id,
        "created": version.created,
    }


def lineage_report(details: "VersionDetails") -> str:
    """What `rnnlm models show` prints: from the version back to the bytes of the corpus, then its ancestors."""
    listed, tags, corpus = details.listed, details.tags, details.corpus
    perplexities = [
        f"{tag.removesuffix('_perplexity')} {float(tags[tag]):.2f}"
        for tag in ("train_perplexity", "validation_perplexity", "test_perplexity")
        if tag in tags
    ]
    rows = {
        "version": f"{listed.name} {listed.version} ({', '.join(listed.aliases) or 'no alias'}), {listed.created}",
        "decision": details.decision,
        "perplexity": ", ".join(perplexities),
        "weights": f"sha256 {tags['model_sha256']}" if "model_sha256" in tags else "",
        "run": f"{details.run_id}, MLflow run {details.mlflow_run_id}",
        "code": joined(details.code, version="rnnlm {}", git_commit="commit {}"),
        "settings": tags.get("configuration", ""),
        "dataset": details.dataset_id,
        "tokenizer": joined(details.tokenizer, kind="{}", vocabulary_size="{} ids", digest="digest {}"),
        "corpus": joined(
            corpus, name="{}", bytes="{} bytes", digest="sha256 {}", source="from {}", licence="licence {}"
        ),
        "files": details.source,
    }
    lines = [f"{name:<11}{value}" for name, value in rows.items() if value]
    for parent in details.parents:
        lines.append(
            f"{'parent':<11}version {parent.version}, run {parent.run_id}, dataset {parent.dataset_id}, "
            f"corpus sha256 {parent.corpus_digest}"
        )
    return "\n".join(lines + [f"{'champion':<11}{change_line(change)}" for change in details.changes])


def joined(values: dict[str, str], **patterns: str) -> str:
    """What is there of the values, in the order of the patterns."""
    return ", ".join(pattern.format(values[name]) for name, pattern in patterns.items() if name in values)


def change_line(change: "Change") -> str:
    """One change of champion: when, how, by whom, in place of which, why."""
    how = {"first": "the first", "evidence": "by evidence", "hand": "by hand, without evidence", "rollback": "rollback"}
    before = "" if change.before is None else f", in place of version {change.before}"
    return f"{change.when} {how[change.how]}{before}, by {change.who}: {change.why}"
