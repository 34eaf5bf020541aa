"""The events of a night, and their messages."""

import pytest

from rnnlm.errors import DatasetError
from rnnlm.registry.data_gates import GateResult, GatesRecord, Outcome
from rnnlm.registry.night_events import CANDIDATES, gate_events, registration_events
from rnnlm.storage.records import NightEvent
from rnnlm.storage.result_records import EvaluationRecord, RegisteredVersion
from tests.rnnlm.registry.contest import NAME, Contest


def events_of(contest: Contest, registered: RegisteredVersion, bits_per_byte: float | None = None) -> list[NightEvent]:
    scores = contest.evaluation.scores
    if bits_per_byte is not None:
        scores = scores | {"test": scores["test"].model_copy(update={"bits_per_byte": bits_per_byte})}
    return list(registration_events(registered, EvaluationRecord(scores=scores), "contest"))


@pytest.mark.long
def test_a_first_champion_a_new_one_and_a_worse_candidate(contest: Contest) -> None:
    assert events_of(contest, contest.register("poor")) == []  # nothing was replaced

    good = contest.register("good")
    [replaced] = events_of(contest, good)
    assert replaced.name == "rnnlm.champion.replaced"
    assert replaced.message == f"contest: {NAME} version 2 is the new champion: {good.reason}."
    assert (replaced.resource_id, replaced.payload["corpus"]) == (f"rnnlm.model.{NAME}", "contest")
    assert events_of(contest, contest.register("good")) == []  # an unchanged night

    [worse] = events_of(contest, contest.register("fair"))
    assert (worse.name, worse.labels) == ("rnnlm.champion.kept", {CANDIDATES: "1"})
    [again] = events_of(contest, contest.register("poor", force=True))
    assert again.labels == {CANDIDATES: "2"}
    assert "Candidates in a row that did not replace it: 2." in again.message


@pytest.mark.long
def test_bits_per_byte_are_compared_with_the_version_before(contest: Contest) -> None:
    contest.register("poor")
    good = contest.register("good")
    bits_per_byte = contest.evaluation.scores["test"].bits_per_byte

    def regressions(rise: float) -> list[NightEvent]:
        events = events_of(contest, good, bits_per_byte * rise)
        return [one for one in events if one.name == "rnnlm.perplexity.regressed"]

    assert regressions(1.029) == regressions(0.9) == []
    [found] = regressions(1.031)
    assert "3.1% more than the version before it" in found.message
    assert found.message.endswith("It is the champion.")
    assert found.payload["bits_per_byte_before"] == pytest.approx(bits_per_byte)


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
