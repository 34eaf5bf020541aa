"""Short descriptions of a promotion decision, for messages and pages."""

from datetime import datetime

from rnnlm.storage.result_records import Evidence, RegisteredVersion, TrainedRecord
from rnnlm.tracking.run_names import short_date

# The beginning of the reason of a decision if a user must approve the promotion.
WAITS = "waits for approval"
DETAILS = " nats per byte on "  # A part of the text in brackets at the end of a result of evidence_in_words().


def unchanged_since(record: TrainedRecord) -> str:
    """Return a text such as `unchanged since 21 Nov 02:04`.

    The time is that of the first training run with the same text, settings and program.
    """
    created = record.registered.created
    return f"unchanged since {short_date(datetime.fromisoformat(created))}" if created else "unchanged"


def verdict(registered: RegisteredVersion) -> str:
    """Return the reason of the decision without the evidence in brackets."""
    before, found, after = registered.reason.partition(DETAILS)
    return before.rpartition(" (")[0] + after.partition(")")[2] if found else registered.reason


def difference_in_words(evidence: Evidence) -> str:
    """Return the difference with its confidence interval, such as `1.8% better (between 1.1% and 2.5% better)`."""
    return f"{better_or_worse(evidence.relative(evidence.difference))} ({interval_in_words(evidence)})"


def own_text_in_words(own_evidence: Evidence) -> str:
    """Return a description of how the models differ on the lines that the champion had held out from its training."""
    lines = f"{own_evidence.lines:,} lines" if own_evidence.lines else "lines"
    return f"{difference_in_words(own_evidence)} on the {lines} that the champion itself had held out"


def evidence_in_words(evidence: Evidence, version: int, called: str = "champion") -> str:
    """Return a text such as `1.8% better than champion version 3, between 1.1% and 2.5% better (1.2005 against …)`.

    `called` is the term for the earlier version, such as "champion".
    """
    lines = f"{evidence.byte_count:,} bytes" if evidence.lines is None else f"{evidence.lines:,} lines"
    return (
        f"{better_or_worse(evidence.relative(evidence.difference))} than {called} version {version}, "
        f"{interval_in_words(evidence)} ({evidence.candidate_nats_per_byte:.4f} against "
        f"{evidence.champion_nats_per_byte:.4f}{DETAILS}{lines} that neither has read, {evidence.units:,} "
        f"{unit_noun(evidence)}, one-sided {100 * evidence.confidence:.4g}% bounds, comparison {evidence.comparison} "
        "with this version)"
    )


def interval_in_words(evidence: Evidence) -> str:
    """Return a text such as `between 1.1% and 2.5% better` or `between 0.4% worse and 0.9% better`."""
    lower, upper = (evidence.relative(bound) for bound in (evidence.lower, evidence.upper))
    best, worst = better_or_worse(lower), better_or_worse(upper)
    if best.split()[-1] == worst.split()[-1]:
        smaller, larger = sorted((abs(lower), abs(upper)))
        return f"between {smaller:.1%} and {larger:.1%} {best.split()[-1]}"
    return f"between {worst} and {best}"


def better_or_worse(relative: float) -> str:
    """Return a text that says by how many percent the candidate is better or worse.

    `relative` is the difference in nats per byte divided by the champion's loss.
    """
    return f"{abs(relative):.1%} {'worse' if relative > 0 else 'better'}"


def unit_noun(evidence: Evidence) -> str:
    if evidence.blocks:
        return "run of lines" if evidence.units == 1 else "runs of lines"
    if evidence.units < evidence.documents:
        return "runs of documents"
    return "document" if evidence.units == 1 else "documents"
