"""Custom layers, which are configured as `model.kind=package.module:Class`, and the permission to import their modules.

Importing a module executes its code. A configuration is trusted, but a model's folder may come from an untrusted
source. The kind in its config.json is therefore imported only if this kind is known from a training run of this rnnlm
home, from its registry or from the user.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from rnnlm.config.kinds import KINDS, MEMBERS, OWN_KIND
from rnnlm.errors import ConfigError, ModelError
from rnnlm.storage.home import Home, find_home, read_json, write_json

# The environment variable with a comma-separated list of kinds that may be imported.
OWN_LAYERS_VARIABLE = "RNNLM_OWN_LAYERS"


def own_kinds(config: dict[str, Any]) -> set[str]:
    """Return the custom kinds in a config.json, including those of an ensemble's members."""
    members = config.get(MEMBERS, [config])
    networks = [one for one in members if isinstance(one, dict)] if isinstance(members, list) else []
    found = {kind for one in networks if isinstance(kind := one.get("kind"), str)}
    return {kind for kind in found - set(KINDS) if OWN_KIND.fullmatch(kind)}


def import_configured(kind: str) -> None:
    """Import the module of a layer that a pipeline configuration names. Raise ConfigError if it cannot be imported."""
    try:
        import_module(kind.partition(":")[0])
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"model.kind={kind}: {error};\ncheck that the folder of its module is on PYTHONPATH"
        ) from error


def import_known(kinds: Iterable[str]) -> None:
    """Import the modules of layers that a saved model names. Raise ModelError if this is not permitted."""
    missing = [kind for kind in sorted(kinds) if kind.partition(":")[0] not in sys.modules]
    if not missing:
        return
    known = {kind.strip() for kind in os.environ.get(OWN_LAYERS_VARIABLE, "").split(",")} | noted(find_home())
    for kind in missing:
        if kind not in known:
            raise ModelError(
                f"the model cannot be loaded: its layers are custom code, {kind:.80},\n"
                "which this rnnlm home has never trained; the code was not imported. "
                f"If you trust it, set {OWN_LAYERS_VARIABLE}={kind:.80}"
            )
        try:
            import_configured(kind)
        except ConfigError as error:
            raise ModelError(f"the model cannot be loaded: {error}") from error


def note(home: Home, kinds: Iterable[str]) -> None:
    """Permit models in this rnnlm home to import these kinds of layers in the future."""
    missing = set(kinds) - noted(home)
    if missing:
        home.make(home.root)
        write_json(home.own_layers, sorted(noted(home) | missing))


def noted(home: Home) -> set[str]:
    found = read_json(home.own_layers)
    return {kind for kind in found if isinstance(kind, str)} if isinstance(found, list) else set()
