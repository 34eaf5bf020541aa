"""A scheduled run emits the right Prefect events with the right messages."""

import pytest

from rnnlm.errors import DatasetError
from rnnlm.registry.data_gates import GateResult, GatesRecord, Outcome
from rnnlm.registry.night_events import CANDIDATES, gate_events, registration_events
from rnnlm.storage.records import NightEvent
from rnnlm.storage.result_records import Evidence, RegisteredVersion
from tests.rnnlm.registry.contest import NAME, Contest


def events_of(registered: RegisteredVersion) -> list[NightEvent]:
    return list(registration_events(registered, "contest"))


@pytest.mark.long
def test_a_first_champion_a_new_one_and_a_worse_candidate(contest: Contest) -> None:
    # The first champion replaces no other version, so there is no event.
    assert events_of(contest.register("poor")) == []

    good = contest.register("good")
    [replaced] = events_of(good)
    assert replaced.name == "rnnlm.champion.replaced"
    assert replaced.message == f"contest: {NAME} version 2 is the new champion: {good.reason}."
    assert (replaced.resource_id, replaced.payload["corpus"]) == (f"rnnlm.model.{NAME}", "contest")
    assert events_of(contest.register("good")) == []  # The version was registered before, so there is no event.

    worse, regressed = events_of(contest.register("fair"))
    assert (worse.name, worse.labels) == ("rnnlm.champion.kept", {CANDIDATES: "1"})
    assert regressed.name == "rnnlm.perplexity.regressed"
    assert "% worse (between " in regressed.message
    assert regressed.message.endswith(" than the champion on the same lines. The champion stays.")
    again, _ = events_of(contest.register("poor", force=True))
    assert again.labels == {CANDIDATES: "2"}
    assert "2 candidates in a row have not replaced it." in again.message


@pytest.mark.parametrize(
    ("difference", "lower", "regressed"),
    [(0.029, 0.02, False), (0.03, 0.02, True), (0.05, -0.001, False), (-0.05, -0.06, False)],
)
def test_only_what_is_clearly_worse_on_the_same_lines_has_regressed(
    difference: float, lower: float, regressed: bool
) -> None:
    """Only a candidate that is significantly worse on the same lines, by more than a minimum, counts as a regression.

    The champion's loss is one nat per byte. The scores on the test splits of the two runs have no effect.
    """
    evidence = Evidence(
        documents=300, lines=300, units=300, byte_count=9_000, candidate_nats_per_byte=1 + difference,
        champion_nats_per_byte=1.0, difference=difference, lower=lower, upper=0.1, confidence=0.95, resamples=1_000,
    )  # fmt: skip
    version = RegisteredVersion(
        name=NAME, version=3, alias="challenger", reason="worse", uri=f"models:/{NAME}/3", evidence=evidence, kept=1
    )
    names = [one.name for one in events_of(version)]
    assert ("rnnlm.perplexity.regressed" in names) == regressed
    without = version.model_copy(update={"evidence": None, "kept": 7})
    [kept] = events_of(without)
    assert kept.labels == {CANDIDATES: "7"}  # Runs without evidence are counted, too.


def gates(gate: str, outcome: Outcome) -> GatesRecord:
    result = GateResult(gate=gate, outcome=outcome, share=0.75, text="three quarters are new", warn_at=0.1, stop_at=0.5)
    return GatesRecord(corpus_name="toy", model_name="rnnlm-toy", results=(result,))


@pytest.mark.parametrize(
    ("gate", "outcome", "names"),
    [
        ("drift", "passed", []),
        ("drift", "not measured", []),
        ("leakage", "warned", []),
        ("drift", "warned", ["rnnlm.corpus.drifted"]),
        ("leakage", "stopped", ["rnnlm.night.stopped"]),
        ("drift", "stopped", ["rnnlm.night.stopped", "rnnlm.corpus.drifted"]),
    ],
)
def test_a_gate_that_stops_and_a_text_that_drifts_are_events(gate: str, outcome: Outcome, names: list[str]) -> None:
    record = gates(gate, outcome)
    events = gate_events(record)
    assert [event.name for event in events] == names
    assert all("three quarters are new" in event.message for event in events)
    if outcome == "stopped":
        with pytest.raises(DatasetError, match="three quarters are new"):
            record.raise_if_stopped()
