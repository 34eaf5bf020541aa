"""Compute the configuration of a flow run from its deployment, the run's parameters and the form in the UI."""

from typing import Any, TypeVar, cast

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from rnnlm.config import PipelineConfig, Section
from rnnlm.config.preset_files import with_preset_settings
from rnnlm.config.presets import change_preset, with_choices
from rnnlm.registry.version_tags import settings_fact

ConfigT = TypeVar("ConfigT", bound=Section)
# The parameters of a flow by which with_choices() changes the configuration.
FORM_FIELDS = ("corpus", "preset", "minutes", "maximum_tokens", "settings", "promote")


def configuration_of_run(config: ConfigT, **choices: Any) -> ConfigT:
    """Return the configuration of the current flow run.

    The deployment's `config` is the base. The run's own `config` replaces it field by field, whereas Prefect would
    replace it as a whole. The fields of the form are applied next. Finally, `registry.promote` is set for a run whose
    settings are those of its deployment. Without a deployment, only the fields of the form are applied to `config`.

    Args:
        config: The flow's parameter `config`.
        choices: The flow's parameters that are named in FORM_FIELDS.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    parameters = None
    if run is not None and run.deployment_id is not None:
        with get_client(sync_client=True) as client:
            parameters = client.read_deployment(run.deployment_id).parameters
        values = over_deployment(parameters.get("config", {}), run.parameters.get("config", {}))
        config = type(config).model_validate(values)
    if not isinstance(config, PipelineConfig):
        return config
    chosen = with_choices(config, **choices)
    return cast(ConfigT, chosen if parameters is None else with_policy(chosen, parameters))


def over_deployment(deployed: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge a run's values into those of its deployment. Both arguments are nested dictionaries, as in JSON."""
    # The deployment was created by `prefect deploy`, which does not add the settings of presets.
    if deployed.keys() == {"preset"}:
        deployed = with_preset_settings(deployed)
    preset = deployed.get("preset", "default")
    if given.get("preset", preset) != preset:
        return change_preset(deployed, given)
    return merged(deployed, given)


def with_policy(config: PipelineConfig, parameters: dict[str, Any]) -> PipelineConfig:
    """Return the configuration with registry.promote=by_policy if the run has exactly the settings of its deployment.

    A run with other settings is an experiment. Its model must be better than the champion to replace it. `parameters`
    are those of the deployment, which may also have values for fields of the form.
    """
    if config.registry.promote is not None:
        return config
    choices = {name: parameters[name] for name in FORM_FIELDS if name != "promote" and parameters.get(name)}
    deployed = with_choices(PipelineConfig.model_validate(over_deployment(parameters.get("config", {}), {})), **choices)
    if config.corpus.source != deployed.corpus.source or settings_fact(config) != settings_fact(deployed):
        return config
    return config.model_copy(update={"registry": config.registry.model_copy(update={"promote": "by_policy"})})


def merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `override`. Nested dictionaries of the same name are merged recursively."""
    values = base | override
    for name in base.keys() & override.keys():
        if isinstance(base[name], dict) and isinstance(override[name], dict):
            values[name] = merged(base[name], override[name])
    return values
