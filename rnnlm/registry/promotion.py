"""The promotion rule: which version becomes champion, decided from the evidence."""

from dataclasses import dataclass

from rnnlm.config import RegistryConfig
from rnnlm.records import Evidence
from rnnlm.registry.model_names import Alias


@dataclass(frozen=True)
class Decision:
    alias: Alias
    reason: str
    evidence: Evidence | None = None


def undecidable(champion: int, why: str) -> Decision:
    """Without evidence there is no promotion; `rnnlm promote` overrides it."""
    return Decision("challenger", f"not comparable with champion version {champion}: {why}")


def decide(evidence: Evidence, champion: int, config: RegistryConfig) -> Decision:
    """Champion if even the upper bound of the difference says that it is better; else challenger."""
    figures = in_words(evidence, champion)
    if evidence.units < config.minimum_units:
        noun = "document" if evidence.units == 1 else "documents"
        few = f"only {evidence.units} {noun} to compare on, fewer than {config.minimum_units}"
        return Decision("challenger", f"{few} (registry.minimum_units): {figures}", evidence)
    if evidence.upper < 0:
        return Decision("champion", f"better: {figures}", evidence)
    verdict = "worse" if evidence.lower > 0 else "not shown to be better"
    return Decision("challenger", f"{verdict}: {figures}", evidence)


def in_words(evidence: Evidence, champion: int) -> str:
    """'1.2005 nats per byte against 1.3013 of champion version 3, a difference of -0.1008 …'"""
    documents = "runs of documents" if evidence.units < evidence.documents else "documents"
    return (
        f"{evidence.candidate_nats_per_byte:.4f} nats per byte against {evidence.champion_nats_per_byte:.4f} of "
        f"champion version {champion}, a difference of {evidence.difference:+.4f} (one-sided "
        f"{100 * evidence.confidence:.4g}% bounds {evidence.lower:+.4f} and {evidence.upper:+.4f}, "
        f"{evidence.resamples:,} resamples of {evidence.units:,} {documents}, {evidence.byte_count:,} bytes, "
        f"comparison {evidence.comparison} with it)"
    )
