"""The rule of promotion, case by case."""

import pytest

from rnnlm.config import RegistryConfig
from rnnlm.records import Evidence
from rnnlm.registry.model_names import is_lock, lock_name, registered_name
from rnnlm.registry.promotion import decide, undecidable

CONFIG = RegistryConfig()


def evidence(lower: float, upper: float, units: int = 412) -> Evidence:
    return Evidence(
        documents=units,
        units=units,
        byte_count=88_123,
        candidate_nats_per_byte=1.2,
        champion_nats_per_byte=1.3,
        difference=-0.1,
        lower=lower,
        upper=upper,
        confidence=0.95,
        resamples=10_000,
    )


@pytest.mark.parametrize(
    ("lower", "upper", "alias", "verdict"),
    [
        (-0.2, -0.01, "champion", "better"),
        (-0.2, 0.0, "challenger", "not shown to be better"),
        (-0.1, 0.1, "challenger", "not shown to be better"),
        (0.0, 0.0, "challenger", "not shown to be better"),
        (0.01, 0.2, "challenger", "worse"),
        (float("nan"), float("nan"), "challenger", "not shown to be better"),
    ],
)
def test_only_an_upper_bound_below_zero_takes_over(lower: float, upper: float, alias: str, verdict: str) -> None:
    decision = decide(evidence(lower, upper), 3, CONFIG)
    assert decision.alias == alias
    assert decision.reason.startswith(f"{verdict}: ")


@pytest.mark.parametrize(("units", "alias"), [(199, "challenger"), (200, "champion")])
def test_fewer_than_the_minimum_of_units_never_takes_over(units: int, alias: str) -> None:
    decision = decide(evidence(-0.2, -0.1, units), 3, CONFIG)
    assert decision.alias == alias
    assert ("only 199 documents to compare on, fewer than 200" in decision.reason) == (units == 199)
    assert decide(evidence(-0.2, -0.1, units), 3, RegistryConfig(minimum_units=50)).alias == "champion"


def test_the_reason_gives_figures_interval_and_units() -> None:
    assert decide(evidence(-0.1511, -0.0489), 3, CONFIG).reason == (
        "better: 1.2000 nats per byte against 1.3000 of champion version 3, a difference of -0.1000 (one-sided 95% "
        "bounds -0.1511 and -0.0489, 10,000 resamples of 412 documents, 88,123 bytes, comparison 1 with it)"
    )


def test_without_evidence_nobody_takes_over() -> None:
    decision = undecidable(3, "its model cannot be loaded")
    assert (decision.alias, decision.evidence) == ("challenger", None)
    assert decision.reason == "not comparable with champion version 3: its model cannot be loaded"


def test_a_model_is_named_after_its_corpus_unless_it_is_named() -> None:
    assert registered_name(RegistryConfig(), "python-docs") == "rnnlm-python-docs"
    assert registered_name(RegistryConfig(model_name="mine"), "python-docs") == "mine"


def test_no_model_of_ours_is_named_like_a_lock() -> None:
    assert is_lock(lock_name("rnnlm-python-docs"))
    assert not is_lock("rnnlm-python-docs")
    with pytest.raises(ValueError, match="model_name"):
        RegistryConfig(model_name=lock_name("mine"))
