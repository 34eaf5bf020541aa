"""Invented scores of `rnnlm probe abilities`, for tests of tables and pages."""

from collections.abc import Sequence

from rnnlm.extensions.probes.probe_records import AbilityScore


def ability_score(
    network: str, task: str, accuracies: Sequence[float], lengths: Sequence[int] = (24, 192), seed: int = 0
) -> AbilityScore:
    return AbilityScore(
        network=network,
        task=task,
        seed=seed,
        hidden_size=8,
        parameters=1_000,
        steps=200,
        lengths=tuple(lengths),
        accuracies=tuple(accuracies),
        chances=(0.5,) * len(lengths),
    )
