"""The options of `evaluate` that put something on top of a model: dynamic evaluation, a cache, an n-gram model."""

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from rnnlm.config import Section
from rnnlm.errors import ConfigError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.presets import validate_section

if TYPE_CHECKING:
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import Adaptations

CONFIGS: dict[str, type[Section]] = {"dynamic": DynamicConfig, "cache": CacheConfig}


class Setting(NamedTuple):
    """--<section>-<name> sets a field of a section."""

    section: str
    name: str
    field: str
    help: str

    @property
    def option(self) -> str:
        return f"--{self.section}-{self.name}"

    def given(self, options: argparse.Namespace) -> Any:
        """None where it was not given."""
        return getattr(options, f"{self.section}_{self.name}")


TUNED = ("rate", "decay", "theta", "share")
SETTINGS = (
    Setting("dynamic", "rate", "rate", "step along the gradient of each segment"),
    Setting("dynamic", "decay", "decay", "share of the way back to the trained weights after each step"),
    Setting("dynamic", "segment", "segment_length", "tokens scored together, then learnt from"),
    Setting("dynamic", "scaled", "scaled", "each weight at a rate of its own"),
    Setting("cache", "size", "size", "tokens remembered"),
    Setting("cache", "theta", "theta", "how much more a similar state counts"),
    Setting("cache", "share", "share", "of the cache in the mixture"),
)


def add_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dynamic", action="store_true", help="go on learning from what was scored; text in its order")
    sub.add_argument("--cache", action="store_true", help="mix in what followed similar states before")
    sub.add_argument("--interpolate", choices=("kneser-ney",), help="mix in a 5-gram model of the training split")
    sub.add_argument("--tune", action="store_true", help=f"choose {', '.join(TUNED)} on the validation split")
    for setting in SETTINGS:
        default = CONFIGS[setting.section].model_fields[setting.field].default
        if isinstance(default, bool):
            sub.add_argument(setting.option, action="store_const", const=True, help=setting.help)
        else:
            sub.add_argument(setting.option, type=type(default), help=f"{setting.help}; default: {default}")


def wanted_by(options: argparse.Namespace) -> "Adaptations | None":
    """What the options ask for; None: the plain perplexity alone. ConfigError where they do not belong together."""
    dynamic, cache = (section_of(options, section) for section in CONFIGS)
    if options.tune and not (dynamic or cache):
        raise ConfigError("--tune: give --dynamic or --cache, too; --interpolate fits its share without it")
    if not (dynamic or cache or options.interpolate):
        return None
    for setting in SETTINGS:
        if options.tune and setting.field in TUNED and setting.given(options) is not None:
            raise ConfigError(f"--tune chooses {', '.join(TUNED)} by itself; leave out {setting.option}, or --tune")
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import Adaptations

    return Adaptations(dynamic, cache, NgramConfig() if options.interpolate else None, options.tune)


def section_of(options: argparse.Namespace, section: str) -> Any:
    """The configuration of `dynamic` or `cache`, None where it is not asked for."""
    given = [setting for setting in SETTINGS if setting.section == section and setting.given(options) is not None]
    if getattr(options, section):
        values = {setting.field: setting.given(options) for setting in given}
        return validate_section(section, CONFIGS[section], values)
    if given:
        raise ConfigError(f"{given[0].option}: it is a setting of --{section}; give that, too")
    return None
