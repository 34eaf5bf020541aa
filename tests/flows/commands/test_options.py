"""The commands that run the pipeline or a part of it have the same short options, and so does the form in the UI."""

import inspect
from typing import Any

import pytest

from flows.command_line import build_group
from flows.operations.run_configuration import FORM_FIELDS
from flows.pipeline_flow import pipeline_flow
from rnnlm.config.presets import SHORT_SETTINGS

# The options of each command besides --corpus, --preset, --config and --set. Comments say why an option is missing.
SHORT_OPTIONS = {
    "run": {*SHORT_SETTINGS, "force", "verify", "seeds"},
    # The --seeds option is missing, because this command trains only once.
    "train": {*SHORT_SETTINGS, "force", "verify", "resume"},
    # The --force and --verify options are missing, because every scheduled run would repeat the work.
    "schedule": {*SHORT_SETTINGS, "name", "cron", "timezone"},
    # Options of training are missing, because this command trains nothing.
    "prepare": {"engine", "ray_address", "force", "verify"},
    # The --minutes option is missing, because --match seconds --budget replaces it. The --promote option is missing,
    # because nothing is registered.
    "compare": {
        *SHORT_SETTINGS.keys() - {"minutes", "promote"},
        *("force", "models", "match", "budget", "seeds", "trials", "trial_share", "target_perplexity"),
        *("cost_seconds", "against"),
    },
}
SHARED = {"corpus", "preset", "config", "set"}
OF_ALL_COMMANDS = {"help", "json", "quiet", "verbose"}


@pytest.mark.parametrize("command", SHORT_OPTIONS)
def test_a_command_has_the_short_options_that_fit_it(command: str) -> None:
    found: Any = build_group()
    names = {parameter.name for parameter in found.get_command(None, command).params}
    assert names - OF_ALL_COMMANDS == SHORT_OPTIONS[command] | SHARED


def test_the_form_has_what_a_person_chooses_for_one_run() -> None:
    """The form in the UI has the settings that a user chooses for one run.

    Its parameter `settings` accepts all others, also by short names such as engine=ray.
    """
    parameters = list(inspect.signature(pipeline_flow.fn).parameters)
    assert parameters == [*FORM_FIELDS, "config", "seeds"]
    assert FORM_FIELDS == ("corpus", "preset", "minutes", "maximum_tokens", "settings", "promote")
