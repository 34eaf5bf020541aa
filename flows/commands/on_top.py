"""The options of `evaluate` that put something on top of a model: dynamic evaluation, a cache, an n-gram model."""

import argparse
from typing import TYPE_CHECKING, Any

from rnnlm.config import CacheConfig, DynamicConfig, NgramConfig, Section
from rnnlm.errors import ConfigError
from rnnlm.presets import validate_section

if TYPE_CHECKING:
    from rnnlm.evaluation.on_top.comparing import OnTop

SETTINGS: dict[str, tuple[type[Section], dict[str, tuple[str, type, str]]]] = {  # option → config: field → option, …
    "dynamic": (
        DynamicConfig,
        {
            "rate": ("dynamic_rate", float, "step along the gradient of each segment"),
            "decay": ("dynamic_decay", float, "share of the way back to the trained weights after each step"),
            "segment_length": ("dynamic_segment", int, "tokens scored together, then learnt from"),
        },
    ),
    "cache": (
        CacheConfig,
        {
            "size": ("cache_size", int, "tokens remembered"),
            "theta": ("cache_theta", float, "how much more a similar state counts"),
            "share": ("cache_share", float, "of the cache in the mixture"),
        },
    ),
}


def add_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dynamic", action="store_true", help="go on learning from what was scored; text in its order")
    sub.add_argument("--dynamic-scaled", action="store_true", help="each weight at a rate of its own")
    sub.add_argument("--cache", action="store_true", help="mix in what followed similar states before")
    sub.add_argument("--interpolate", choices=("kneser-ney",), help="mix in a 5-gram model of the training split")
    sub.add_argument("--tune", action="store_true", help="choose rate, decay, theta, share on the validation split")
    for config, fields in SETTINGS.values():
        for field, (option, type_, text) in fields.items():
            default = config.model_fields[field].default
            flag = f"--{option.replace('_', '-')}"
            sub.add_argument(flag, type=type_, help=f"{text}; default: {default}")


def wanted_by(options: argparse.Namespace) -> "OnTop | None":
    """What the options ask for; None: the plain perplexity alone. ConfigError where they do not belong together."""
    dynamic, cache = (settings_of(options, name) for name in SETTINGS)
    if options.dynamic_scaled and not options.dynamic:
        raise ConfigError("--dynamic-scaled: it is a setting of --dynamic; give that, too")
    if options.tune and not (options.dynamic or options.cache):
        raise ConfigError(
            "--tune: nothing to tune; give --dynamic or --cache, too (--interpolate always fits its share)"
        )
    if not (options.dynamic or options.cache or options.interpolate):
        return None
    from rnnlm.evaluation.on_top.comparing import OnTop

    return OnTop(dynamic, cache, NgramConfig() if options.interpolate else None, options.tune)


def settings_of(options: argparse.Namespace, name: str) -> Any:
    """The configuration of `dynamic` or `cache`, None where it is not asked for."""
    config, fields = SETTINGS[name]
    values = {field: getattr(options, option) for field, (option, _, _) in fields.items()}
    given = {field: value for field, value in values.items() if value is not None}
    if given and not getattr(options, name):
        option = fields[next(iter(given))][0].replace("_", "-")
        raise ConfigError(f"--{option}: it is a setting of --{name}; give that, too")
    if not getattr(options, name):
        return None
    return validate_section(name, config, given | ({"scaled": options.dynamic_scaled} if name == "dynamic" else {}))
