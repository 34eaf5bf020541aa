"""Checks of config.json and rnnlm.json. The checks accept only values that training can have written.

The files may be damaged or come from another user, and the values in them determine code, shapes and paths. The module
is copied into every bundle.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..config.kinds import KINDS, MEMBERS, OWN_KIND, kind_of

MODEL_CONFIGURATION, PROVENANCE = "config.json", "rnnlm.json"
LARGEST_SIZES = {  # The largest allowed integers. They are the upper bounds of the settings in config/model_config.py.
    "vocab_size": 1 << 24,
    "hidden_size": 1 << 14,
    "embedding_size": 1 << 24,  # With one-hot input, the embedding size equals the vocabulary size.
    "num_hidden_layers": 64,
}
LARGEST_OF_KINDS = {"heads": 256, "attention_window": 1 << 14}
# The ids of the special tokens in tokenizers/text_tokenizer.py.
SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
CHOICES = {"nonlinearity": ("tanh", "relu", "sigmoid"), "backend": ("fused", "loop")}
FLAGS = ("residual", "tie_word_embeddings", "one_hot")
MOST_MEMBERS = 64
MODES = ("sentence", "stream")
LONGEST_CUT = 1 << 20  # The largest allowed context_length or block_length, in tokens.


class SavedCut(NamedTuple):
    """The settings by which text is split into rows for the model. They implement document_losses.Cut."""

    mode: str
    context_length: int
    block_length: int


def read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path.name}: expected a JSON object, found a value of type {type(content).__name__}")
    return content


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ValueError if `config` is not the configuration of a network or of an ensemble of networks."""
    if MEMBERS not in config:
        check_network(config)
        return
    members = config[MEMBERS]
    if not isinstance(members, list) or not 1 <= len(members) <= MOST_MEMBERS:
        raise unexpected(MEMBERS, f"1 to {MOST_MEMBERS} networks", members)
    for member in members:
        if not isinstance(member, dict) or MEMBERS in member:
            raise unexpected(MEMBERS, "the configurations of networks", member)
        check_network(member)
    for name in ("vocab_size", *SPECIAL_IDS):
        if any(member[name] != config.get(name) for member in members):
            raise unexpected(name, f"that of the members, {members[0][name]}", config.get(name))


def check_network(config: Mapping[str, Any]) -> None:
    """Raise ValueError if a value cannot have been written by model_factory.architecture()."""
    name = config.get("kind", "elman")
    if not isinstance(name, str) or not (name in KINDS or OWN_KIND.fullmatch(name)):
        raise unexpected("kind", ", ".join(KINDS), name)
    kind = kind_of(name)
    bounds = LARGEST_SIZES | {name: bound for name, bound in LARGEST_OF_KINDS.items() if name in kind.settings}
    for name, bound in bounds.items():
        if not is_whole(config.get(name), 1, bound):
            raise unexpected(name, f"a whole number from 1 to {bound:,}", config.get(name))
    for name, special in SPECIAL_IDS.items():
        if not is_whole(config.get(name), special, special) or special >= config["vocab_size"]:
            raise unexpected(name, str(special), config.get(name))
    for name, values in CHOICES.items():
        if (name in kind.settings or name == "backend") and config.get(name) not in values:
            raise unexpected(name, " or ".join(values), config.get(name))
    for name in (*FLAGS, *({"diagonal"} & set(kind.settings))):
        if not isinstance(config.get(name), bool):
            raise unexpected(name, "true or false", config.get(name))
    # Models that were saved by version 0.3 have no branch_scale in their configurations.
    scale = config.get("branch_scale", 1.0)
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= 1:
        raise unexpected("branch_scale", "a number above 0, at most 1", scale)
    step = kind.units_per_head * config.get("heads", 1) if kind.units_per_head else 1
    if config["hidden_size"] % step:
        raise unexpected("hidden_size", f"a multiple of {step}", config["hidden_size"])


def read_saved_cut(folder: Path) -> SavedCut:
    """Return the settings by which text is split into rows for the model in `folder`.

    Raise ValueError if rnnlm.json does not specify them.
    """
    facts = read_object(folder / PROVENANCE)
    if facts.get("mode") not in MODES:
        raise unexpected("mode", " or ".join(MODES), facts.get("mode"), PROVENANCE)
    for name in ("context_length", "block_length"):
        if not is_whole(facts.get(name), 1, LONGEST_CUT):
            raise unexpected(name, "a whole number of tokens", facts.get(name), PROVENANCE)
    return SavedCut(facts["mode"], facts["context_length"], facts["block_length"])


def is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def unexpected(name: str, expected: str, found: Any, file: str = MODEL_CONFIGURATION) -> ValueError:
    return ValueError(f"{file}: {name}: expected {expected}, found {ascii(found):.60}")
