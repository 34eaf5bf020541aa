"""Events at the end of a scheduled run: its result, a new champion, a worse candidate, or the reason why it stopped.

| event                      | when                                                                                 |
|----------------------------|--------------------------------------------------------------------------------------|
| rnnlm.night.ended          | always, unless the run failed; with scores, decision and files that were not read    |
| rnnlm.champion.replaced    | a candidate replaced the champion                                                    |
| rnnlm.champion.kept        | a candidate did not replace it; the label `rnnlm.candidates` counts them in a row    |
| rnnlm.champion.waiting     | a candidate won and waits for a person's approval                                    |
| rnnlm.perplexity.regressed | on the same lines a candidate is significantly worse than the champion, by 3% or more |
| rnnlm.night.stopped        | a gate has stopped the run before training                                           |
| rnnlm.corpus.drifted       | the gate `drift` warns or stops                                                      |

Two models are compared on the same lines in nats per byte, because every run has its own tokenizer and test split.
Scores on different texts are never subtracted. A run that registers nothing new has only the event rnnlm.night.ended.
The event rnnlm.scores.drifted is in rnnlm/extensions/scoring/drift.py.
"""

from typing import Any

from rnnlm.registry.data_gates import CHAMPION_STAYS, GatesRecord
from rnnlm.registry.decision_text import WAITS, difference_in_words, own_text_in_words, unchanged_since, verdict
from rnnlm.storage.records import LeftOut, NightEvent
from rnnlm.storage.result_records import Evidence, RegisteredVersion, TrainedRecord

NIGHT_ENDED = "rnnlm.night.ended"
CHAMPION_REPLACED = "rnnlm.champion.replaced"
CHAMPION_KEPT = "rnnlm.champion.kept"
CHAMPION_WAITING = "rnnlm.champion.waiting"
PERPLEXITY_REGRESSED = "rnnlm.perplexity.regressed"
NIGHT_STOPPED = "rnnlm.night.stopped"
CORPUS_DRIFTED = "rnnlm.corpus.drifted"
CANDIDATES = "rnnlm.candidates"  # A label with the number of successive candidates that did not replace the champion.
LEFT_OUT_SHOWN = 5
# The smallest increase of the loss for the event rnnlm.perplexity.regressed, as a fraction of the champion's nats per
# byte. It is several times the effect of another seed.
REGRESSION = 0.03


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


def registration_events(registered: RegisteredVersion, corpus_name: str) -> tuple[NightEvent, ...]:
    """Return the events of a new version, or no events if the version was registered before."""
    if registered.skipped or registered.repaired:
        return ()
    name, version = registered.name, f"{registered.name} version {registered.version}"
    evidence = registered.evidence
    facts = {"corpus": corpus_name, "version": registered.version, "reason": registered.reason}
    events = []
    if registered.alias == "champion" and evidence is not None:
        message = f"{corpus_name}: {version} is the new champion: {registered.reason}."
        events.append(event(CHAMPION_REPLACED, name, message, facts))
    if registered.alias == "challenger" and registered.reason.startswith(WAITS):
        link = f"\n{registered.url}" if registered.url else ""
        approval = f"To approve: rnnlm promote {name}/{registered.version}{link}"
        message = f"{corpus_name}: {version} {registered.reason}.\n{approval}"
        events.append(event(CHAMPION_WAITING, name, message, facts | figures_of(evidence)))
    candidates = registered.kept
    # With registry.promote=never, `candidates` is 0, and there is no event.
    if registered.alias == "challenger" and candidates:
        in_a_row = f" {candidates} candidates in a row have not replaced it." if candidates > 1 else ""
        message = f"{corpus_name}: {version} does not replace the champion: {registered.reason}.{in_a_row}"
        labels = {CANDIDATES: str(candidates)}
        events.append(event(CHAMPION_KEPT, name, message, facts | {"candidates": candidates}, labels))
    if evidence is not None and evidence.lower > 0 and evidence.relative(evidence.difference) >= REGRESSION:
        stays = "It is the champion." if registered.alias == "champion" else "The champion stays."
        message = (
            f"{corpus_name}: {version} is {difference_in_words(evidence)} than the champion on the same lines. {stays}"
        )
        events.append(event(PERPLEXITY_REGRESSED, name, message, facts | figures_of(evidence)))
    return tuple(events)


def figures_of(evidence: Evidence | None) -> dict[str, Any]:
    """Return the paired difference and its bounds as fractions of the champion's nats per byte.

    If the models were not compared, so that `evidence` is None, the result is empty.
    """
    if evidence is None:
        return {}
    return {name: evidence.relative(getattr(evidence, name)) for name in ("difference", "lower", "upper")}


def night_ended(corpus_name: str, record: TrainedRecord, left_out: tuple[LeftOut, ...] = ()) -> NightEvent:
    """Return the event at the end of a run. `left_out` contains the files of the source that were not read."""
    test, registered = record.evaluation.scores["test"], record.registered
    version = f"{registered.name} version {registered.version}"
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
    lines = [f"{decision[0].upper()}{decision[1:]}." if record.is_unchanged else f"{decision}."]
    if registered.own_evidence is not None:
        lines.append(f"It is {own_text_in_words(registered.own_evidence)}.")
    if registered.kept > 1 and not record.is_unchanged:
        lines.append(f"The champion has been kept for {registered.kept} nights, since {registered.kept_since[:10]}.")
    lines.append(
        f"On its own test split it has {test.bits_per_byte:.3f} bits per byte (perplexity {test.perplexity:.2f})."
    )
    if registered.reason.startswith(WAITS) and registered.alias == "challenger":
        lines.append(f"To approve: rnnlm promote {registered.name}/{registered.version}")
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
        "kept": registered.kept,
        "left_out": len(left_out),
        **figures_of(registered.evidence),
    }
    return event(NIGHT_ENDED, registered.name, "\n".join(lines), payload)
