"""Values of a run's deployment: they are merged below the run's own, and tell an experiment from a scheduled night."""

from typing import Any, TypeVar

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from rnnlm.config import PipelineConfig, Section
from rnnlm.config.presets import change_preset, with_choices
from rnnlm.registry.version_tags import settings_fact

ConfigT = TypeVar("ConfigT", bound=Section)


def with_deployment_values(config: ConfigT) -> ConfigT:
    """Merge the run's own values over its deployment's, section by section. Other runs get `config` unchanged.

    Prefect itself would replace the deployment's `config` as a whole.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        deployed = client.read_deployment(run.deployment_id).parameters
    ours, given = deployed.get("config", {}), run.parameters.get("config", {})
    deployed_preset = ours.get("preset", "default")
    if given.get("preset", deployed_preset) != deployed_preset:
        return type(config).model_validate(change_preset(ours, given))
    return type(config).model_validate(merged(ours, given))


def with_schedules_policy(config: PipelineConfig) -> PipelineConfig:
    """policy_of_run() with the parameters of the current run's deployment; without one the configuration unchanged."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        return policy_of_run(config, client.read_deployment(run.deployment_id).parameters)


def policy_of_run(config: PipelineConfig, parameters: dict[str, Any]) -> PipelineConfig:
    """The configuration with registry.promote=by_policy if the run has exactly its deployment's settings.

    A run by hand or from the form with other settings is an experiment: its model has to be better. parameters: of the
    deployment, in which a person may have filled in the short fields of the form, too.
    """
    if config.registry.promote is not None:
        return config
    names = ("corpus", "preset", "maximum_tokens", "settings")
    choices = {name: parameters[name] for name in names if parameters.get(name)}
    deployed = with_choices(PipelineConfig.model_validate(parameters.get("config", {})), **choices)
    if config.corpus.source != deployed.corpus.source or settings_fact(config) != settings_fact(deployed):
        return config
    return config.model_copy(update={"registry": config.registry.model_copy(update={"promote": "by_policy"})})


def merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """`override` over `base`; two dictionaries under one name are merged in the same way."""
    values = base | override
    for name in base.keys() & override.keys():
        if isinstance(base[name], dict) and isinstance(override[name], dict):
            values[name] = merged(base[name], override[name])
    return values
