"""Reports on registered models: a registration, the list of versions, and the lineage of a version."""

import json
from typing import TYPE_CHECKING, Any

from rnnlm.config.moved_settings import flatten
from rnnlm.display.text_layout import fact_lines, markdown_table
from rnnlm.registry.decision_text import unit_noun
from rnnlm.storage.result_records import Evidence, ListedVersion, RegisteredVersion

if TYPE_CHECKING:  # The imports are only for type annotations, because they would load torch.
    from rnnlm.registry.champion_history import Change
    from rnnlm.registry.lineage import VersionDetails


def evidence_report(evidence: Evidence, own_evidence: Evidence | None = None) -> str:
    """Return a report in Markdown with the losses of both models on the same lines, and the bounds of their difference.

    `own_evidence` is the evidence on the lines that the champion had held out from its training.
    """
    rows = [evidence_row("all lines", evidence)]
    if own_evidence is not None:
        rows.append(evidence_row("the champion's own", own_evidence))
    note = (
        f"Nats per byte, on held-out lines that neither was trained or selected on: {evidence.byte_count:,} bytes of "
        f"{evidence.documents:,} documents. The difference is a share of the champion's, with one-sided "
        f"{100 * evidence.confidence:.4g}% bounds from {evidence.resamples:,} resamples of {evidence.units:,} "
        f"{unit_noun(evidence)}; lower is better."
    )
    return f"{markdown_table(rows)}\n\n{note}"


def evidence_row(what: str, evidence: Evidence) -> dict[str, str]:
    lower, upper = (f"{evidence.relative(bound):+.1%}" for bound in (evidence.lower, evidence.upper))
    return {
        "": what,
        "lines": "" if evidence.lines is None else f"{evidence.lines:,}",
        "candidate": f"{evidence.candidate_nats_per_byte:.4f}",
        "champion": f"{evidence.champion_nats_per_byte:.4f}",
        "difference": f"{evidence.relative(evidence.difference):+.1%}",
        "bounds": f"{lower} to {upper}",
    }


def registered_lines(registered: RegisteredVersion) -> list[str]:
    """Return lines with the version, its alias, and the commands to use it."""
    result = f"{registered.name} version {registered.version} as {registered.alias}: {registered.reason}"
    model = registered.name if registered.alias == "champion" else f"{registered.name}/{registered.version}"
    commands = {"next": f"rnnlm generate {model} -n 5", " ": f"rnnlm serve {model}"}
    return fact_lines({"registered": result, **commands})


def model_row(version: ListedVersion) -> dict[str, Any]:
    """Return a model's row in the output of `rnnlm models`.

    Cells are empty if another program registered the version.
    """
    perplexity, bits = version.test_perplexity, version.bits_per_byte
    # Bits per byte are shown instead of perplexities, because they are comparable between tokenizers.
    return {
        "name": version.name,
        "version": version.version,
        "aliases": ", ".join(version.aliases),
        "test bits/byte": "" if bits is None else f"{bits:.3f}",
        "test perplexity": "" if perplexity is None else f"{perplexity:.2f}",
        "dataset": version.dataset_id[:8],
        "created": version.created[:16].replace("T", " "),
    }


def lineage_report(details: "VersionDetails") -> str:
    """Return the text that `rnnlm models show` prints: the version, its origin and corpus, and its ancestors."""
    version, tags = details.listed, details.tags
    aliases = [*version.aliases, *([f"replaced by version {tags['replaced_by']}"] if "replaced_by" in tags else [])]
    perplexities = [
        f"{name} {float(tags[tag]):.2f}"
        for name, tag in (
            ("training", "train_perplexity"),
            ("validation", "validation_perplexity"),
            ("test", "test_perplexity"),
        )
        if tag in tags
    ]
    facts = {
        "version": f"{version.name} {version.version} ({', '.join(aliases) or 'no alias'}), {version.created}",
        "decision": details.decision,
        "copied": f"from {tags['promoted_from']}" if "promoted_from" in tags else "",
        "perplexity": ", ".join(perplexities),
        "weights": f"sha256 {tags['model_sha256']}" if "model_sha256" in tags else "",
        "run": f"{details.run_id}, MLflow run {details.mlflow_run_id}",
        "started": f"from {tags['started_from']}" if "started_from" in tags else "",
        "code": join_tags(details.code, version="rnnlm {}", git_commit="commit {}"),
        "settings": settings_line(tags.get("configuration", "")),
        "dataset": details.dataset_id,
        "tokenizer": join_tags(details.tokenizer, kind="{}", vocabulary_size="{} ids", digest="digest {}"),
        "corpus": join_tags(
            details.corpus, name="{}", bytes="{} bytes", digest="sha256 {}", source="from {}", licence="licence {}"
        ),
        "files": details.source,
        "parent": [
            f"version {parent.version}, run {parent.run_id}, dataset {parent.dataset_id}, "
            f"corpus sha256 {parent.corpus_digest}"
            for parent in details.parents
        ],
        "champion": [change_line(change) for change in details.changes],
    }
    return "\n".join(fact_lines(facts))


def settings_line(configuration: str) -> str:
    """Return the `configuration` tag as options of `--set`. A tag that is not JSON is returned unchanged."""
    try:
        sections = json.loads(configuration)
    except ValueError:
        return configuration
    fields = flatten(sections).items()
    return " ".join(f"{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in fields)


def join_tags(values: dict[str, str], **patterns: str) -> str:
    """Return the values that exist, each formatted by its pattern, joined in the order of the patterns.

    Numbers get thousands separators.
    """
    shown = values | {name: f"{int(values[name]):,}" for name in ("bytes", "vocabulary_size") if name in values}
    return ", ".join(pattern.format(shown[name]) for name, pattern in patterns.items() if name in shown)


def change_line(change: "Change") -> str:
    """Return a line that describes a change of champion.

    It contains the time, the replaced version, the user and, if a person decided, the reason.
    """
    how = {"first": "the first", "evidence": "by evidence", "hand": "by hand", "rollback": "by a rollback"}
    before = "" if change.before is None else f", in place of version {change.before}"
    why = f": {change.why}" if change.how in ("hand", "rollback") else ""
    return f"{change.when} {how[change.how]}{before}, by {change.who}{why}"
