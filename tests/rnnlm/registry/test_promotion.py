"""The promotion rule makes the right decision in each case."""

import pytest

from rnnlm.config import RegistryConfig
from rnnlm.registry.champion_history import Change
from rnnlm.registry.decision_text import interval_in_words
from rnnlm.registry.promotion import (
    BEST_WITHIN,
    Decision,
    best_champion,
    decide,
    joined,
    kept_before,
    undecidable,
    with_own_text,
)
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
        # The difference is only a rounding error, so both models are equally good.
        (2e-9, 4e-9, "challenger", "not shown to be better"),
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
        # The candidate is worse, but by less than the margin of 0.013.
        (0.005, 0.001, 0.012, "champion", "newer, and at most 1% worse"),
        (0.005, -0.004, 0.014, "challenger", "not shown to be as good"),
        # The text is too short to show a difference within the margin.
        (0.0, -0.3, 0.3, "champion", "newer, and not worse on these lines"),
        (0.001, -0.3, 0.3, "challenger", "not shown to be as good"),
        (0.5, 0.4, 0.6, "challenger", "worse"),
        (float("inf"), float("nan"), float("nan"), "challenger", "not shown to be as good"),
        (float("nan"), float("nan"), float("nan"), "challenger", "not shown to be as good"),
    ],
)
def test_a_newer_candidate_wins_unless_worse_than_the_margin(
    difference: float, lower: float, upper: float, alias: str, verdict: str
) -> None:
    """A candidate wins under the `newer` policy unless it may be worse by more than the margin.

    The champion's loss is 1.3 nats per byte, so the margin of 1 % is 0.013.
    """
    decision = decide(evidence(lower, upper, difference=difference), 3, NEWER)
    assert decision.alias == alias
    assert decision.reason.startswith(f"{verdict}: ")


@pytest.mark.parametrize("config", [NEWER, BETTER])
@pytest.mark.parametrize(("units", "alias"), [(9, "challenger"), (10, "champion")])
def test_fewer_than_the_minimum_of_units_never_takes_over(units: int, alias: str, config: RegistryConfig) -> None:
    decision = decide(evidence(-0.2, -0.1, units), 3, config)
    assert decision.alias == alias
    assert ("only 9 documents to compare on, fewer than 10" in decision.reason) == (units == 9)
    blocks = evidence(-0.2, -0.1, units).model_copy(update={"blocks": True})
    assert "runs of lines" in decide(blocks, 3, config).reason
    assert decide(evidence(-0.2, -0.1, units), 3, RegistryConfig(minimum_units=9)).alias == "champion"


def test_the_reason_gives_figures_interval_and_units() -> None:
    assert decide(evidence(-0.1511, -0.0489).model_copy(update={"lines": 1_204}), 3, NEWER).reason == (
        "better: 7.7% better than champion version 3, between 3.8% and 11.6% better (1.2000 against 1.3000 nats per "
        "byte on 1,204 lines that neither has read, 412 documents, one-sided 95% bounds, comparison 1 with this "
        "version)"
    )


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        (-0.0143, -0.0039, "between 0.3% and 1.1% better"),
        (-0.0143, 0.0039, "between 0.3% worse and 1.1% better"),
        (0.0039, 0.0143, "between 0.3% and 1.1% worse"),
        (0.0, 0.0, "between 0.0% and 0.0% better"),
    ],
)
def test_an_interval_is_told_in_words(lower: float, upper: float, words: str) -> None:
    assert interval_in_words(evidence(lower, upper)) == words


OWN = evidence(0.02, 0.04, difference=0.03).model_copy(update={"lines": 90})


@pytest.mark.parametrize(
    ("own", "alias"),
    [
        (OWN, "challenger"),  # The candidate is 2.3 % worse on the champion's own text.
        # The difference on the champion's own text is within the margin.
        (OWN.model_copy(update={"difference": 0.012}), "champion"),
        # The difference on the champion's own text may be due to chance.
        (OWN.model_copy(update={"lower": -0.01}), "champion"),
        # The champion's own text has only 9 units of the bootstrap, which are too few.
        (OWN.model_copy(update={"units": 9}), "champion"),
        (None, "champion"),
        # All lines of the comparison belong to the champion's own text, so there is no second comparison.
        (evidence(0.02, 0.04, difference=0.03), "champion"),
    ],
)
def test_a_loss_on_the_champion_s_own_text_needs_approval(own: Evidence | None, alias: str) -> None:
    lines = 100 if own and own.lines else None
    won = Decision("champion", "better: …", evidence(-0.2, -0.1).model_copy(update={"lines": lines}))
    decision = with_own_text(won, own, 3, NEWER)
    assert decision.alias == alias
    if alias == "challenger":
        assert decision.reason == (
            "waits for approval (rnnlm promote), because on the text that champion version 3 has held out it is 2.3% "
            "worse, between 1.5% and 3.1% worse; on all lines of this comparison: better: …"
        )
    lost = won._replace(alias="challenger")
    assert with_own_text(lost, own, 3, NEWER).alias == "challenger"


def test_nights_are_counted_whether_or_not_there_was_evidence() -> None:
    # Versions 6 and 7 have kept=0, because they were registered with promote=never.
    nights = [
        version(2, parent_version="1", alias="challenger", kept="1"),
        version(3, parent_version="1", alias="challenger", kept="2", evidence="{}"),
        version(4, parent_version="1", alias="champion"),
        version(5, parent_version="4", alias="challenger", kept="1"),
        version(6, parent_version="4", alias="challenger", kept="0"),
        version(7, parent_version="6", alias="challenger", kept="0"),
    ]
    assert [kept_before(nights, champion) for champion in (1, 4, 5, 6)] == [2, 1, 0, 0]
    # The number is also known after `rnnlm prune` has removed the first version.
    assert kept_before(nights[1:], 1) == 2


def test_a_defeat_by_the_best_champion_keeps_the_evidence_about_the_champion() -> None:
    """A version that loses against the best champion keeps the evidence about the current champion.

    The version's parent is the current champion, and the evidence contains the number of the comparison with it.
    """
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
    assert best_champion([first, second, third], champion=2, within=BEST_WITHIN) == first


def test_without_evidence_the_champion_stays() -> None:
    decision = undecidable(3, "its model cannot be loaded")
    assert (decision.alias, decision.evidence) == ("challenger", None)
    assert decision.reason == "not comparable with champion version 3: its model cannot be loaded"


def test_a_model_is_named_after_its_corpus_unless_it_is_named() -> None:
    assert registered_name(RegistryConfig(), "python-docs") == "rnnlm-python-docs"
    assert registered_name(RegistryConfig(model_name="mine"), "python-docs") == "mine"
