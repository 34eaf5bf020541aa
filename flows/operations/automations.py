"""The automations that `rnnlm deploy` and `rnnlm up` create, which send messages about events.

A message is sent to every notification block named `rnnlm`. `rnnlm notify` creates these blocks. Without such a block,
an automation does nothing. A user's changes to automations are kept, and a disabled automation remains disabled.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rnnlm.extension_points import drift_events
from rnnlm.registry.night_events import (
    CANDIDATES,
    CHAMPION_KEPT,
    CHAMPION_REPLACED,
    CHAMPION_WAITING,
    CORPUS_DRIFTED,
    NIGHT_ENDED,
    PERPLEXITY_REGRESSED,
)

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import BlockDocument
    from prefect.events.schemas.automations import AutomationCore

NOTIFIER = "rnnlm"  # The name of the notification blocks in Prefect.
KEPT_IN_A_ROW = 7
EVERY_NIGHT = "rnnlm: night ended"  # The automation that is disabled until `rnnlm notify --every-night` is called.
RETIRED = ("rnnlm: candidate worse 7 times",)  # Automations of earlier versions, which are deleted.
RUN_LINK = "{% if flow_run %}{{ flow_run.name }}: {{ flow_run|ui_url }}{% endif %}"
RUN_TEXT = "{{ flow_run.name }}: {{ flow_run.state.name }}\n{{ flow_run.state.message }}\n{{ flow_run|ui_url }}"
EVENT_TEXT = f"{{{{ event.payload.message }}}}\n{RUN_LINK}"
# This label makes a trigger count the events of each deployment separately.
DEPLOYMENT = "related:deployment:prefect.resource.id"
OF_DEPLOYMENTS = {"prefect.resource.role": "deployment", "prefect.resource.id": "prefect.deployment.*"}
OF_PIPELINES = {"prefect.resource.role": "flow", "prefect.resource.name": "pipeline"}
ON_SCHEDULE = {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.auto-scheduled"}
BEGUN = {"prefect.flow-run.Pending", "prefect.flow-run.Running", "prefect.flow-run.Cancelled"}


def run_trigger(expect: set[str], related: list[dict[str, str]], **settings: Any) -> dict[str, Any]:
    """Return a trigger for flow runs of deployments.

    Runs that a user started on a terminal are excluded, because the terminal shows their result.
    """
    return {
        "match": {"prefect.resource.id": "prefect.flow-run.*"},
        "match_related": related,
        "expect": expect,
    } | settings


def event_trigger(*expect: str, **labels: str) -> dict[str, Any]:
    return {"match": {"prefect.resource.id": "rnnlm.*", **labels}, "expect": set(expect)}


def absence(hours: float, after: set[str]) -> dict[str, Any]:
    """Return settings of a trigger that fires if no expected event follows an event in `after` within `hours`."""
    return {"posture": "Proactive", "after": after, "within": timedelta(hours=hours), "threshold": 1}


# The description, the trigger and the message of each automation.
SHIPPED: dict[str, tuple[str, dict[str, Any], str]] = {
    EVERY_NIGHT: (
        "How each night ended: scores beside the champion's, decision, files that were not read.",
        event_trigger(NIGHT_ENDED),
        EVENT_TEXT,
    ),
    "rnnlm: run failed": (
        "A run of a deployment failed, after its retries. A gate that stops a night fails its run.",
        run_trigger({"prefect.flow-run.Failed", "prefect.flow-run.TimedOut"}, [OF_DEPLOYMENTS]),
        RUN_TEXT,
    ),
    "rnnlm: run crashed": (
        "A run's process was killed, and no run of its deployment has begun within an hour.",
        run_trigger(
            {"prefect.flow-run.Running"},
            [OF_DEPLOYMENTS],
            for_each={DEPLOYMENT},
            **absence(1, {"prefect.flow-run.Crashed"}),
        ),
        RUN_TEXT,
    ),
    "rnnlm: no success for 26 hours": (
        "A scheduled run of the pipeline began or was late, and none has completed in the 26 hours after it.",
        run_trigger(
            {"prefect.flow-run.Completed"},
            [OF_PIPELINES, ON_SCHEDULE],
            for_each={DEPLOYMENT},
            **absence(26, {"prefect.flow-run.Running", "prefect.flow-run.Late"}),
        ),
        f"{{{{ deployment.name }}}}: no run has succeeded for 26 hours.\n{RUN_LINK}",
    ),
    "rnnlm: run late": (
        "A run has not begun an hour after its time: is the worker running?",
        run_trigger(BEGUN, [OF_DEPLOYMENTS], for_each={"prefect.resource.id"}, **absence(1, {"prefect.flow-run.Late"})),
        RUN_TEXT,
    ),
    "rnnlm: champion replaced": (
        "A candidate replaced the champion.",
        event_trigger(CHAMPION_REPLACED),
        EVENT_TEXT,
    ),
    "rnnlm: candidate waits for approval": (
        "A candidate won, and registry.approval or a loss on the champion's own text asks for a person's approval.",
        event_trigger(CHAMPION_WAITING),
        EVENT_TEXT,
    ),
    f"rnnlm: champion kept {KEPT_IN_A_ROW} times": (
        f"{KEPT_IN_A_ROW} candidates in a row did not replace the champion, with or without evidence.",
        event_trigger(CHAMPION_KEPT, **{CANDIDATES: str(KEPT_IN_A_ROW)}),
        EVENT_TEXT,
    ),
    "rnnlm: perplexity regressed": (
        "On the same lines a candidate is shown to be worse than the champion, and by 3% or more.",
        event_trigger(PERPLEXITY_REGRESSED),
        EVENT_TEXT,
    ),
    "rnnlm: text drifted": (
        "Tonight's text differs from the champion's, or scored texts differ from its validation text.",
        event_trigger(CORPUS_DRIFTED, *drift_events()),
        EVENT_TEXT,
    ),
}


def deploy_automations(client: "SyncPrefectClient", *, every_night: bool | None = None) -> int:
    """Create missing automations, and let all automations send messages to the blocks named `rnnlm`.

    The function may be called again. If `every_night` is True, a message is sent after every nightly run, even without
    a new result. If it is None, the current choice is kept. Return the number of blocks.
    """
    from prefect.events.schemas.automations import AutomationCore

    blocks = client.read_block_documents(limit=200, include_secrets=False)
    told = [block for block in blocks if block.name == NOTIFIER and can_notify(block)]
    existing = {automation.name: automation for automation in client.read_automations()}
    for name, (description, trigger, text) in SHIPPED.items():
        wanted = actions(name, text, told)
        found = existing.get(name)
        if found is None:
            values: dict[str, Any] = {"name": name, "description": description, "trigger": trigger, "actions": wanted}
            values["enabled"] = name != EVERY_NIGHT or bool(every_night)
            client.create_automation(AutomationCore.model_validate(values))
        elif targets(found) != targets_of(wanted) and is_ours(found, blocks):
            values = found.model_dump(exclude={"id", "owner_resource"}) | {"actions": wanted}
            client.update_automation(found.id, AutomationCore.model_validate(values))
    for name in existing.keys() & RETIRED:
        if is_ours(existing[name], blocks):
            client.delete_automation(existing[name].id)
    nightly = existing.get(EVERY_NIGHT)
    if nightly is not None and every_night is not None:
        (client.resume_automation if every_night else client.pause_automation)(nightly.id)
    return len(told)


def can_notify(block: "BlockDocument") -> bool:
    return block.block_schema is not None and "notify" in block.block_schema.capabilities


def actions(name: str, text: str, told: "list[BlockDocument]") -> list[dict[str, Any]]:
    notifications = [
        {"type": "send-notification", "block_document_id": block.id, "subject": name, "body": text} for block in told
    ]
    return notifications or [{"type": "do-nothing"}]


def targets_of(wanted: list[dict[str, Any]]) -> set[str]:
    """Return the ids of the blocks to which the actions in `wanted` send a message."""
    return {str(action["block_document_id"]) for action in wanted if action["type"] == "send-notification"}


def targets(automation: "AutomationCore") -> set[str]:
    return targets_of([action.model_dump() for action in automation.actions])


def is_ours(automation: "AutomationCore", blocks: "list[BlockDocument]") -> bool:
    """Return True if the user has not changed the automation's actions.

    An unchanged automation does nothing, or sends messages only to blocks that are named `rnnlm` or were deleted.
    """
    others = {str(block.id) for block in blocks if block.name != NOTIFIER}
    kinds = {action.type for action in automation.actions}
    return kinds <= {"do-nothing", "send-notification"} and not targets(automation) & others
