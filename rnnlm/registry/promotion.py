"""The decision whether a version becomes champion, based on the evidence of a comparison and the registry's history.

This module needs neither MLflow nor a model: champion_comparison.py loads both models and measures the evidence.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rnnlm.config import RegistryConfig
from rnnlm.registry.champion_history import read_history
from rnnlm.registry.decision_text import WAITS, better_or_worse, evidence_in_words, interval_in_words, unit_noun
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.storage.result_records import Alias, Evidence

BEST_VERSION = "best_version"  # The key of Decision.best_version in a version's metadata.
BEST_WITHIN = timedelta(days=30)
ROUNDING = 1e-6  # The largest difference in nats per byte that counts as a rounding error.


class Decision(NamedTuple):
    alias: Alias
    reason: str
    evidence: Evidence | None = None
    # The number of the version with the lowest loss on the lines of this comparison: the candidate or a champion of the
    # last month.
    best_version: int | None = None
    own_evidence: Evidence | None = None  # The evidence on the lines that the champion had held out from its training.


def undecidable(champion: int, why: str) -> Decision:
    """Return the decision not to promote the version for lack of evidence. `rnnlm promote` can override it."""
    return Decision("challenger", f"not comparable with champion version {champion}: {why}")


def decide(
    evidence: Evidence, version: int, config: RegistryConfig, called: str = "champion", must_be_better: str = ""
) -> Decision:
    """Return the decision whether a candidate may replace an earlier version.

    With the policy `newer`, the candidate may replace it if it is shown to be at most `margin` worse, or if it is not
    worse on these lines. With `better`, it must be shown to be better.

    Args:
        evidence: The evidence of the comparison.
        version: The number of the earlier version.
        config: The settings of the registry.
        called: The term for the earlier version in the reason.
        must_be_better: The reason why this candidate must be shown to be better under any policy, such as "it was
            trained on no newer text", or "" if there is no such reason.
    """
    figures = evidence_in_words(evidence, version, called)
    if config.promote == "never":
        return Decision("challenger", f"not promoted, because registry.promote is never: {figures}", evidence)
    if evidence.units < config.minimum_units:
        few = f"only {evidence.units} {unit_noun(evidence)} to compare on, fewer than {config.minimum_units}"
        return Decision("challenger", f"{few} (registry.minimum_units): {figures}", evidence)
    if evidence.upper < -ROUNDING:
        return Decision("champion", f"better: {figures}", evidence)
    if config.policy == "newer" and not must_be_better:
        if evidence.upper < config.margin * evidence.champion_nats_per_byte:
            return Decision("champion", f"newer, and at most {100 * config.margin:.4g}% worse: {figures}", evidence)
        if evidence.difference <= ROUNDING:
            return Decision("champion", f"newer, and not worse on these lines: {figures}", evidence)
    if evidence.lower > ROUNDING:
        verdict = "worse"
    else:
        verdict = "not shown to be better" if must_be_better or config.policy == "better" else "not shown to be as good"
        verdict += f", which is required because {must_be_better}" if must_be_better else ""
    return Decision("challenger", f"{verdict}: {figures}", evidence)


def with_own_text(decision: Decision, own_evidence: Evidence | None, champion: int, config: RegistryConfig) -> Decision:
    """Return the decision after a comparison on the lines that the champion had held out from its own training.

    If the candidate is worse on these lines, a person must approve it. Without this rule, a candidate that is worse on
    the text for which the champion is used could win because of newly added text of another kind.
    """
    if own_evidence is None or decision.evidence is None or own_evidence.lines == decision.evidence.lines:
        return decision
    decision = decision._replace(own_evidence=own_evidence)
    margin = config.margin * own_evidence.champion_nats_per_byte
    if decision.alias == "challenger" or own_evidence.units < config.minimum_units or own_evidence.difference <= margin:
        return decision
    if own_evidence.lower <= 0:  # The decision stands, because the candidate is not significantly worse on these lines.
        return decision
    loss = better_or_worse(own_evidence.relative(own_evidence.difference))
    why = (
        f"{WAITS} (rnnlm promote), because on the text that champion version {champion} has held out it is "
        f"{loss}, {interval_in_words(own_evidence)}; on all lines of this comparison: {decision.reason}"
    )
    return decision._replace(alias="challenger", reason=why)


def with_approval(decision: Decision, config: RegistryConfig) -> Decision:
    """Return the decision, changed so that it waits for a person's approval if registry.approval is true."""
    if decision.alias == "challenger" or decision.evidence is None or not config.approval:
        return decision
    return decision._replace(alias="challenger", reason=f"{WAITS} (rnnlm promote): {decision.reason}")


def joined(decision: Decision, beside_best: Decision | None, candidate: int, best: int) -> Decision:
    """Combine the decisions against the champion and against the best champion, and set the version that is now best.

    The evidence of the result is that of the comparison with the current champion, which is the version's parent.
    `beside_best` is None if there was no comparison with another champion. `best` is the best version before this
    comparison.
    """
    if decision.alias == "challenger":
        return decision._replace(best_version=best)
    if beside_best is not None and beside_best.alias == "challenger" and beside_best.evidence is not None:
        return decision._replace(alias="challenger", reason=beside_best.reason, best_version=best)
    last = beside_best or decision
    is_best = last.evidence is None or last.evidence.difference <= 0
    return decision._replace(best_version=candidate if is_best else best)


def best_champion(versions: list[RegistryVersion], champion: int, within: timedelta | None) -> RegistryVersion | None:
    """Return the former champion that was best at the last decision, or None if it need not be compared again.

    The result is None if that version is champion now, or if it was last champion before the time span `within`, which
    is unlimited if None. The result is also None if a person chose the champion, because the person may have rejected a
    better version. `versions` are all versions of the registered model. A version whose registration was killed before
    its alias was set is ignored.
    """
    decided = [version for version in versions if BEST_VERSION in version.facts and "alias" in version.facts]
    if not decided:
        return None
    number = int(max(decided, key=lambda version: version.number).facts[BEST_VERSION])
    history = read_history(versions)
    ended = [change.when for change in history if change.before == number]
    recent = (datetime.now(UTC) - within).isoformat(timespec="seconds") if within is not None else ""
    by_hand = bool(history) and history[-1].how in ("hand", "rollback")
    if by_hand or number == champion or max(ended, default="") < recent:
        return None
    return next((version for version in versions if version.number == number), None)


def comparisons_before(versions: list[RegistryVersion], champion: int) -> int:
    """Return the number of versions that were compared with this champion, including those that were pruned.

    `versions` are all versions of the registered model. The evidence of each comparison has a number, and prune keeps
    the version with the highest number.
    """
    numbers = [version.comparison for version in versions if version.parent == champion and version.comparison]
    return max(len(numbers), *numbers, 0)


def kept_before(versions: list[RegistryVersion], champion: int) -> int:
    """Return the number of successive runs in which this champion was kept, with or without evidence.

    `versions` are all versions of the registered model. Each version that did not replace the champion stores the
    number of such versions up to it. A version with registry.promote=never stores 0 and is not counted.
    """
    challengers = challengers_of(versions, champion)
    return max([len(challengers), *(one.kept for one in challengers)])


def kept_since(versions: list[RegistryVersion], champion: int) -> str | None:
    """Return the time when this champion was first kept, in ISO 8601, or None if it was never kept.

    Later versions also store this time, so that it is known even if the first of them was removed.
    """
    return min((one.facts.get("kept_since", one.created) for one in challengers_of(versions, champion)), default=None)


def challengers_of(versions: list[RegistryVersion], champion: int) -> list[RegistryVersion]:
    """Return the versions that did not replace this champion, except those with registry.promote=never."""
    challengers = (one for one in versions if one.parent == champion and one.facts.get("alias") == "challenger")
    return [one for one in challengers if one.facts.get("kept") != "0"]
