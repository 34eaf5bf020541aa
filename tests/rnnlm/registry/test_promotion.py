"""The rule of promotion, case by case."""

import pytest

from rnnlm.config import RegistryConfig
from rnnlm.registry.champion_history import Change
from rnnlm.registry.promotion import Decision, best_champion, decide, joined, undecidable
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.version_tags import registered_name
from rnnlm.storage.result_records import Evidence

NEWER, BETTER = RegistryConfig(policy="newer"), RegistryConfig(policy="better")


def evidence(lower: float, upper: float, units: int = 412, difference: float = -0.1) -> Evidence:
    return Evidence(
        documents=units,
        units=units,
        byte_count=88_123,
        candidate_nats_per_byte=1.2,
        champion_nats_per_byte=1.3,
        difference=difference,
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
        (2e-9, 4e-9, "challenger", "not shown to be better"),  # the same model, but for rounding
        (-4e-9, -2e-9, "challenger", "not shown to be better"),
        (0.01, 0.2, "challenger", "worse"),
        (float("nan"), float("nan"), "challenger", "not shown to be better"),
    ],
)
def test_only_an_upper_bound_below_zero_takes_over(lower: float, upper: float, alias: str, verdict: str) -> None:
    decision = decide(evidence(lower, upper), 3, BETTER)
    assert decision.alias == alias
    assert decision.reason.startswith(f"{verdict}: ")


@pytest.mark.parametrize(
    ("difference", "lower", "upper", "alias", "verdict"),
    [
        (-0.1, -0.2, -0.01, "champion", "better"),
        (0.0, 0.0, 0.0, "champion", "newer, and at most 1% worse"),
        (0.005, 0.001, 0.012, "champion", "newer, and at most 1% worse"),  # worse, within 0.013
        (0.005, -0.004, 0.014, "challenger", "not shown to be as good"),
        (0.0, -0.3, 0.3, "champion", "newer, and not worse on these documents"),  # too little text to tell more
        (0.001, -0.3, 0.3, "challenger", "not shown to be as good"),
        (0.5, 0.4, 0.6, "challenger", "worse"),
        (float("inf"), float("nan"), float("nan"), "challenger", "not shown to be as good"),
        (float("nan"), float("nan"), float("nan"), "challenger", "not shown to be as good"),
    ],
)
def test_a_newer_candidate_wins_unless_worse_than_the_margin(
    difference: float, lower: float, upper: float, alias: str, verdict: str
) -> None:
    """The champion has 1.3 nats per byte: the margin of 1 % is 0.013."""
    decision = decide(evidence(lower, upper, difference=difference), 3, NEWER)
    assert decision.alias == alias
    assert decision.reason.startswith(f"{verdict}: ")


@pytest.mark.parametrize("config", [NEWER, BETTER])
@pytest.mark.parametrize(("units", "alias"), [(49, "challenger"), (50, "champion")])
def test_fewer_than_the_minimum_of_units_never_takes_over(units: int, alias: str, config: RegistryConfig) -> None:
    decision = decide(evidence(-0.2, -0.1, units), 3, config)
    assert decision.alias == alias
    assert ("only 49 documents to compare on, fewer than 50" in decision.reason) == (units == 49)
    blocks = evidence(-0.2, -0.1, units).model_copy(update={"blocks": True})
    assert "blocks of lines" in decide(blocks, 3, config).reason
    assert decide(evidence(-0.2, -0.1, units), 3, RegistryConfig(minimum_units=40)).alias == "champion"


def test_the_reason_gives_figures_interval_and_units() -> None:
    assert decide(evidence(-0.1511, -0.0489), 3, NEWER).reason == (
        "better: 1.2000 nats per byte against 1.3000 of champion version 3, a difference of -0.1000 (one-sided 95% "
        "bounds -0.1511 and -0.0489, 10,000 resamples of 412 documents, 88,123 bytes, comparison 1 with it)"
    )


def test_a_defeat_by_the_best_champion_keeps_the_evidence_about_the_champion() -> None:
    """The version's parent is the champion, and the evidence numbers the comparisons with it."""
    against_champion, against_best = evidence(-0.2, -0.1), evidence(0.1, 0.2).model_copy(update={"comparison": 7})
    won = Decision("champion", "better", against_champion)
    lost = joined(won, Decision("challenger", "worse than version 1", against_best), candidate=3, best=1)
    assert lost == Decision("challenger", "worse than version 1", against_champion, best_version=1)
    gone = joined(won, undecidable(1, "its model cannot be loaded"), candidate=3, best=1)
    assert gone == Decision("champion", "better", against_champion, best_version=3)


def version(number: int, **facts: str) -> RegistryVersion:
    return RegistryVersion(name="rnnlm-toy", number=number, facts=facts, created_ms=0)


def test_a_decision_that_was_never_carried_out_names_no_best_champion() -> None:
    change = Change(number=2, version=2, before=1, how="evidence", who="", when="9999-01-01", why="")
    first = version(1, alias="champion")
    second = version(2, alias="champion", best_version="1", **{"promotion.0002": change.model_dump_json()})
    third = version(3, best_version="3", reason="better")
    assert best_champion([first, second, third], champion=2) == first


def test_without_evidence_the_champion_stays() -> None:
    decision = undecidable(3, "its model cannot be loaded")
    assert (decision.alias, decision.evidence) == ("challenger", None)
    assert decision.reason == "not comparable with champion version 3: its model cannot be loaded"


def test_a_model_is_named_after_its_corpus_unless_it_is_named() -> None:
    assert registered_name(RegistryConfig(), "python-docs") == "rnnlm-python-docs"
    assert registered_name(RegistryConfig(model_name="mine"), "python-docs") == "mine"
