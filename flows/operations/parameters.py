"""What a deployed run was given, over what its deployment says: Prefect itself replaces `config` as a whole."""

from typing import Any, TypeVar

from rnnlm.config import Section

C = TypeVar("C", bound=Section)


def over_deployment(config: C) -> C:
    """The deployment's config with the run's own values over it, section by section; `config` in any other run."""
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        deployed = client.read_deployment(run.deployment_id).parameters
    return type(config).model_validate(merged(deployed.get("config", {}), run.parameters.get("config", {})))


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` over `below`; where both have a dictionary these are merged in the same way."""
    values = below | above
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            values[name] = merged(below[name], above[name])
    return values
