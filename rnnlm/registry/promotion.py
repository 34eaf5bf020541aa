"""The decision of a promotion: champion or challenger, from the evidence of a comparison and the registry's history.

champion_comparison.py loads both models and measures the evidence. Nothing here needs MLflow or a model.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rnnlm.config import RegistryConfig
from rnnlm.registry.champion_history import read_history
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.storage.result_records import Alias, Evidence

BEST_VERSION = "best_version"  # fact of a decided version: its Decision.best_version
BEST_WITHIN = timedelta(days=30)
ROUNDING = 1e-6  # nats per byte: by less than this the scores of one and the same model differ


class Decision(NamedTuple):
    alias: Alias
    reason: str
    evidence: Evidence | None = None
    best_version: int | None = None  # of the candidate and the champions of the last month, on tonight's documents


def undecidable(champion: int, why: str) -> Decision:
    """Without evidence there is no promotion; `rnnlm promote` overrides it."""
    return Decision("challenger", f"not comparable with champion version {champion}: {why}")


def decide(evidence: Evidence, version: int, config: RegistryConfig, called: str = "champion") -> Decision:
    """Whether a candidate may take over from an earlier version, by registry.policy.

    newer: if it is shown to be at most `margin` worse, or if it is not worse on these documents.
    better: if it is shown to be better. called: what the reason calls the earlier version.
    """
    figures = in_words(evidence, version, called)
    if evidence.units < config.minimum_units:
        few = f"only {evidence.units} {unit_noun(evidence)} to compare on, fewer than {config.minimum_units}"
        return Decision("challenger", f"{few} (registry.minimum_units): {figures}", evidence)
    if evidence.upper < -ROUNDING:
        return Decision("champion", f"better: {figures}", evidence)
    if config.policy == "newer":
        if evidence.upper < config.margin * evidence.champion_nats_per_byte:
            return Decision("champion", f"newer, and at most {100 * config.margin:.4g}% worse: {figures}", evidence)
        if evidence.difference <= ROUNDING:
            return Decision("champion", f"newer, and not worse on these documents: {figures}", evidence)
    if evidence.lower > ROUNDING:
        verdict = "worse"
    else:
        verdict = "not shown to be better" if config.policy == "better" else "not shown to be as good"
    return Decision("challenger", f"{verdict}: {figures}", evidence)


def unit_noun(evidence: Evidence) -> str:
    if evidence.blocks:
        return "block of lines" if evidence.units == 1 else "blocks of lines"
    return "document" if evidence.units == 1 else "documents"


def in_words(evidence: Evidence, version: int, called: str = "champion") -> str:
    """'1.2005 nats per byte against 1.3013 of champion version 3, a difference of -0.1008 …'"""
    documents = "runs of documents" if evidence.units < evidence.documents else unit_noun(evidence)
    return (
        f"{evidence.candidate_nats_per_byte:.4f} nats per byte against {evidence.champion_nats_per_byte:.4f} of "
        f"{called} version {version}, a difference of {evidence.difference:+.4f} (one-sided "
        f"{100 * evidence.confidence:.4g}% bounds {evidence.lower:+.4f} and {evidence.upper:+.4f}, "
        f"{evidence.resamples:,} resamples of {evidence.units:,} {documents}, {evidence.byte_count:,} bytes, "
        f"comparison {evidence.comparison} with it)"
    )


def joined(decision: Decision, beside_best: Decision | None, candidate: int, best: int) -> Decision:
    """The decision from those against the champion and against the best champion, with the version that is best now.

    beside_best: None if the best champion is the present one, or if the candidate did not win against the present one.
    best: the best one so far. The evidence is always that against the present champion, the version's parent.
    """
    if decision.alias == "challenger":
        return decision._replace(best_version=best)
    if beside_best is not None and beside_best.alias == "challenger" and beside_best.evidence is not None:
        return decision._replace(alias="challenger", reason=beside_best.reason, best_version=best)
    last = beside_best or decision
    is_best = last.evidence is None or last.evidence.difference <= 0
    return decision._replace(best_version=candidate if is_best else best)


def best_champion(versions: list[RegistryVersion], champion: int) -> RegistryVersion | None:
    """The version that was best when the last one was decided, if it was champion within BEST_WITHIN and is not now.

    versions: all of the registered model; one whose registration was killed before its alias was set does not count.
    None if a person has chosen the champion, who may have had reasons not to have a better one.
    """
    decided = [version for version in versions if BEST_VERSION in version.facts and "alias" in version.facts]
    if not decided:
        return None
    number = int(max(decided, key=lambda version: version.number).facts[BEST_VERSION])
    history = read_history(versions)
    ended = [change.when for change in history if change.before == number]
    recent = (datetime.now(UTC) - BEST_WITHIN).isoformat(timespec="seconds")
    by_hand = bool(history) and history[-1].how in ("hand", "rollback")
    if by_hand or number == champion or max(ended, default="") < recent:
        return None
    return next((version for version in versions if version.number == number), None)


def comparisons_before(versions: list[RegistryVersion], champion: int) -> int:
    """The number of versions that were compared with this champion, including those that `rnnlm prune` has removed.

    versions: all of the registered model. Each comparison's evidence has its number; prune keeps the highest.
    """
    numbers = [version.comparison for version in versions if version.parent == champion and version.comparison]
    return max(len(numbers), *numbers, 0)
