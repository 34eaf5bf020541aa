"""Read a model from its folder, and nothing that rnnlm does not write. Part of every bundle.

A folder may be damaged, or made by others. Each file is checked before anything is built from it: config.json in
saved_config.py, counts.safetensors in count_model.py, the tokenizer in saved_tokenizer.py, the others here.
"""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..config.kinds import MEMBERS
from .ensemble import SHARES, make_network
from .language_model import LanguageModel
from .mixture import load_mixture
from .saved_config import CONFIGURATION, check_config, is_whole, unexpected

WEIGHTS, PROVENANCE = "model.safetensors", "rnnlm.json"
MODES = ("sentence", "stream")
LONGEST_CUT = 1 << 20  # tokens


class SavedCut(NamedTuple):
    """How any text is cut for the model, as document_losses.Cut."""

    mode: str
    context_length: int
    block_length: int


def read_saved_model(folder: Path) -> LanguageModel:
    """Return the model in `folder`, in evaluation mode. ValueError says what is wrong with which file."""
    config = read_object(folder / CONFIGURATION)
    check_config(config)  # before the weights are read, which may take long
    weights = load_file(folder / WEIGHTS)
    check_weights(config, weights)
    model = make_network(config)
    model.load_saved_weights(weights)
    model.mixture = load_mixture(folder, config["vocab_size"])
    return model.eval()


def read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path.name}: expected an object, found {type(content).__name__}")
    return content


def check_weights(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """ValueError if the weights are not those of the network, in its shapes, or not finite.

    The network is first made without memory: sizes that do not fit the weights would take it without an end.
    """
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is copied to a network without memory
        network = make_network(config)
        if MEMBERS in config:
            shares = weights.get(SHARES)
            if shares is None or shares.shape != (len(config[MEMBERS]),):
                raise ValueError(f"{WEIGHTS}: expected {SHARES} for {len(config[MEMBERS])} members")
        try:
            network.load_saved_weights(weights)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]  # torch writes a line for each weight
            raise ValueError(f"{WEIGHTS}: {reason}") from error
    for name, weight in weights.items():
        if not weight.is_floating_point():
            raise ValueError(f"{WEIGHTS}: {name} is of type {weight.dtype}, expected float32")
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(f"its weights are not finite ({ascii(name)[1:-1]:.80})")
    if MEMBERS in config:
        shares = weights[SHARES].double()
        if bool((shares < 0).any()) or abs(float(shares.sum()) - 1) > 1e-3:
            raise ValueError(f"{WEIGHTS}: expected {SHARES} that sum to 1, found {shares.tolist()}")


def read_saved_cut(folder: Path) -> SavedCut:
    """Return how text is cut for the model. ValueError if rnnlm.json does not say it."""
    facts = read_object(folder / PROVENANCE)
    if facts.get("mode") not in MODES:
        raise unexpected("mode", " or ".join(MODES), facts.get("mode"), PROVENANCE)
    for name in ("context_length", "block_length"):
        if not is_whole(facts.get(name), 1, LONGEST_CUT):
            raise unexpected(name, "a whole number of tokens", facts.get(name), PROVENANCE)
    return SavedCut(facts["mode"], facts["context_length"], facts["block_length"])
