"""Which version is the champion: the rule, apart from the registry that carries it out."""

from dataclasses import dataclass

from rnnlm.registry.naming import Alias


@dataclass(frozen=True)
class Standing:
    """What the rule looks at in a version."""

    version: int
    dataset_id: str
    validation_perplexity: float | None  # None: its tag is missing or no number


@dataclass(frozen=True)
class Decision:
    alias: Alias
    reason: str


def decide(candidate: Standing, champion: Standing | None) -> Decision:
    """Champion where there is none or where it is beaten strictly on the same dataset; else challenger."""
    if champion is None:
        return Decision("champion", "there was no champion before it")
    holder = f"champion version {champion.version}"
    if candidate.dataset_id != champion.dataset_id:
        return Decision(
            "challenger",
            f"not comparable: it was validated on dataset {candidate.dataset_id}, {holder} on {champion.dataset_id}",
        )
    mine, theirs = candidate.validation_perplexity, champion.validation_perplexity
    if mine is None or theirs is None:
        return Decision("challenger", f"not comparable: it or {holder} has no validation perplexity")
    figures = f"validation perplexity {mine:.4f} against {theirs:.4f} of {holder}"
    if mine < theirs:
        return Decision("champion", f"better: {figures}")
    return Decision("challenger", f"{'equal' if mine == theirs else 'not better'}: {figures}")
