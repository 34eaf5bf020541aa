"""All commands that run the pipeline or a part of it have the same short options, and the form has the same names."""

import inspect
from typing import Any

import pytest

from flows.command_line import build_group
from flows.operations.run_configuration import FORM_FIELDS
from flows.pipeline_flow import pipeline_flow
from rnnlm.config.presets import SHORT_SETTINGS

# The options of each command in addition to --corpus, --preset, --config and --set, and why it lacks the others.
SHORT_OPTIONS = {
    "run": {*SHORT_SETTINGS, "force", "verify", "seeds"},
    "train": {*SHORT_SETTINGS, "force", "verify", "resume"},  # This command trains once, so it has no seeds.
    # A scheduled run does not force or verify anything each time.
    "schedule": {*SHORT_SETTINGS, "name", "cron", "timezone"},
    # This command trains nothing, so it has none of the training options.
    "prepare": {"engine", "ray_address", "force", "verify"},
    "compare": {  # --match seconds --budget replaces minutes, and nothing is registered that could be promoted.
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
    """The parameter `settings` also accepts short names for rare settings, such as engine=ray."""
    parameters = list(inspect.signature(pipeline_flow.fn).parameters)
    assert parameters == [*FORM_FIELDS, "config", "seeds"]
    assert FORM_FIELDS == ("corpus", "preset", "minutes", "maximum_tokens", "settings", "promote")
