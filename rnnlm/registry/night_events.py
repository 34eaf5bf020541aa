"""The events of a night: how it ended, a new champion, a worse candidate, or why it stopped.

| event                      | when                                                                              |
|----------------------------|-----------------------------------------------------------------------------------|
| rnnlm.night.ended          | always, unless the run failed: scores, decision, files that were not read         |
| rnnlm.champion.replaced    | a candidate replaced the champion                                                 |
| rnnlm.champion.kept        | one did not; label `rnnlm.candidates`: how many in a row, compared with this one  |
| rnnlm.perplexity.regressed | the test split needs 3% more bits per byte than with the version registered before |
| rnnlm.night.stopped        | a gate has stopped the run before training                                        |
| rnnlm.corpus.drifted       | the gate `drift` warns or stops                                                   |

Bits per byte, the logarithm of perplexity per byte, can be compared although every night has a tokenizer of its own.
A night that registers nothing new is only "ended". rnnlm.scores.drifted is in rnnlm/scoring/drift.py.
"""

from typing import Any

from rnnlm.registry.data_gates import CHAMPION_STAYS, GatesRecord
from rnnlm.registry.decision_text import unchanged_since, verdict
from rnnlm.storage.records import LeftOut, NightEvent
from rnnlm.storage.result_records import EvaluationRecord, RegisteredVersion, TrainedRecord

NIGHT_ENDED = "rnnlm.night.ended"
CHAMPION_REPLACED = "rnnlm.champion.replaced"
CHAMPION_KEPT = "rnnlm.champion.kept"
PERPLEXITY_REGRESSED = "rnnlm.perplexity.regressed"
NIGHT_STOPPED = "rnnlm.night.stopped"
CORPUS_DRIFTED = "rnnlm.corpus.drifted"
CANDIDATES = "rnnlm.candidates"  # label: candidates in a row that were compared with the champion and did not win
LEFT_OUT_SHOWN = 5
REGRESSION = 0.03  # relative rise of bits per byte: several times what another seed or a few new documents change


def gate_events(gates: GatesRecord) -> tuple[NightEvent, ...]:
    events = []
    for result in gates.with_outcome("stopped"):
        message = f"{gates.corpus_name}: {CHAMPION_STAYS}: {result.text}."
        payload = {"corpus": gates.corpus_name, **result.model_dump()}
        events.append(event(NIGHT_STOPPED, gates.model_name, message, payload))
    for result in gates.results:
        if result.gate == "drift" and result.outcome in ("warned", "stopped"):
            message = f"{gates.corpus_name}: {result.text}."
            payload = {"corpus": gates.corpus_name, **result.model_dump()}
            events.append(event(CORPUS_DRIFTED, gates.model_name, message, payload))
    return tuple(events)


def event(
    name: str, model_name: str, message: str, payload: dict[str, Any], labels: dict[str, str] | None = None
) -> NightEvent:
    return NightEvent(
        name=name,
        resource_id=f"rnnlm.model.{model_name}",
        resource_name=model_name,
        message=message,
        labels=labels or {},
        payload=payload,
    )


def registration_events(
    registered: RegisteredVersion, evaluation: EvaluationRecord, corpus_name: str
) -> tuple[NightEvent, ...]:
    """The events of a new version; none if it was registered before."""
    if registered.skipped or registered.repaired:
        return ()
    name, version = registered.name, f"{registered.name} version {registered.version}"
    evidence = registered.evidence
    facts = {"corpus": corpus_name, "version": registered.version, "reason": registered.reason}
    events = []
    if registered.alias == "champion" and evidence is not None:
        message = f"{corpus_name}: {version} is the new champion: {registered.reason}."
        events.append(event(CHAMPION_REPLACED, name, message, facts))
    if registered.alias == "challenger":
        candidates = registered.kept
        in_a_row = f" Candidates in a row that did not replace it: {candidates}." if candidates > 1 else ""
        message = f"{corpus_name}: {version} does not replace the champion: {registered.reason}.{in_a_row}"
        labels = {CANDIDATES: str(candidates)}
        events.append(event(CHAMPION_KEPT, name, message, facts | {"candidates": candidates}, labels))
    now = evaluation.scores["test"].bits_per_byte
    before = registered.before.bits_per_byte if registered.before else None
    if before is not None and now > before * (1 + REGRESSION):
        message = (
            f"{corpus_name}: {version} needs {now:.3f} bits per byte of the test split, "
            f"{now / before - 1:.1%} more than the version before it ({before:.3f}). "
        ) + ("It is the champion." if registered.alias == "champion" else "The champion stays.")
        figures = {"bits_per_byte": now, "bits_per_byte_before": before}
        events.append(event(PERPLEXITY_REGRESSED, name, message, facts | figures))
    return tuple(events)


def night_ended(corpus_name: str, record: TrainedRecord, left_out: tuple[LeftOut, ...] = ()) -> NightEvent:
    """left_out: files of the source that were not read."""
    test, registered = record.evaluation.scores["test"], record.registered
    version = f"{registered.name} version {registered.version}"
    score = f"{test.bits_per_byte:.3f} bits per byte of the test split (perplexity {test.perplexity:.2f})"
    rival = registered.rival
    if rival is not None and rival.bits_per_byte is not None:
        noun = "the champion before" if registered.alias == "champion" else "the champion"
        change = test.bits_per_byte / rival.bits_per_byte - 1
        score += f", {change:+.1%} against {noun}, version {rival.version} ({rival.bits_per_byte:.3f})"
    if record.is_unchanged:
        decision = f"{unchanged_since(record)}; {version} is {registered.alias}"
    elif record.is_promoted:
        decision = f"{version} is the new champion: {verdict(registered)}"
    elif registered.repaired:
        decision = f"{version} is {registered.alias}, and its damaged files were written again"
    elif registered.alias == "champion":
        decision = f"{version} is the champion already"
    else:
        decision = f"{version} does not replace the champion: {verdict(registered)}"
    lines = [f"{score}.", f"{decision[0].upper()}{decision[1:]}." if record.is_unchanged else f"{decision}."]
    if left_out:
        shown = "; ".join(f"{one.name}: {one.reason}" for one in left_out[:LEFT_OUT_SHOWN])
        more = f"; and {len(left_out) - LEFT_OUT_SHOWN} more" if len(left_out) > LEFT_OUT_SHOWN else ""
        lines.append(f"{len(left_out)} files were not read: {shown}{more}.")
    payload = {
        "corpus": corpus_name,
        "version": registered.version,
        "alias": registered.alias,
        "reason": registered.reason,
        "promoted": record.is_promoted,
        "unchanged": record.is_unchanged,
        "bits_per_byte": test.bits_per_byte,
        "champion_bits_per_byte": rival.bits_per_byte if rival else None,
        "left_out": len(left_out),
    }
    return event(NIGHT_ENDED, registered.name, "\n".join(lines), payload)
