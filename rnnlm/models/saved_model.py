"""A reader of saved models, which accepts only files that rnnlm can have written.

A folder may be damaged or come from another user. Each file is checked before anything is created from it: config.json
and rnnlm.json in saved_config.py, counts.safetensors in count_model.py, the tokenizer in saved_tokenizer.py, and the
weights in this module, which is copied into every bundle.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..config.kinds import MEMBERS
from .ensemble import SHARES, make_network
from .language_model import LanguageModel
from .mixture import load_mixture
from .saved_config import MODEL_CONFIGURATION, check_config, read_object

WEIGHTS = "model.safetensors"
# The largest absolute value of a weight in an undamaged model. The weights of trained models are below a thousand, but
# a flipped bit can turn a weight into 1e30.
LARGEST_WEIGHT = 1e5


def read_saved_model(folder: Path) -> LanguageModel:
    """Return the model in `folder` in evaluation mode.

    If a file is not valid, raise a ValueError that names the file.
    """
    config = read_object(folder / MODEL_CONFIGURATION)
    check_config(config)  # The configuration is checked first, because reading the weights may take long.
    weights = load_file(folder / WEIGHTS)
    check_weights(config, weights)
    model = make_network(config)
    model.load_saved_weights(weights)
    model.mixture = load_mixture(folder, config["vocab_size"])
    return model.eval()


def check_weights(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Raise ValueError if the names or shapes of the weights are not those of the network, or if a value is not finite.

    The network is created without allocating its weights, because a wrong configuration may specify any size.
    """
    with torch.device("meta"), warnings.catch_warnings():
        # The warning of torch that loading weights into a network without memory has no effect is suppressed.
        warnings.simplefilter("ignore")
        network = make_network(config)
        if MEMBERS in config:
            shares = weights.get(SHARES)
            if shares is None or shares.shape != (len(config[MEMBERS]),):
                raise ValueError(f"{WEIGHTS}: expected {SHARES} for {len(config[MEMBERS])} members")
        try:
            network.load_saved_weights(weights)
        except RuntimeError as error:
            # torch writes one line for each weight. They are joined to a single line.
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"{WEIGHTS}: {reason}") from error
    for name, weight in weights.items():
        if not weight.is_floating_point():
            raise ValueError(f"{WEIGHTS}: {name} is of type {weight.dtype}, expected float32")
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(f"its weights are not finite ({ascii(name)[1:-1]:.80})")
        if weight.numel() and float(weight.abs().max()) > LARGEST_WEIGHT:
            raise ValueError(
                f"its weights are damaged: {ascii(name)[1:-1]:.80} has a value of {weight.abs().max():.3g}"
            )
    if MEMBERS in config:
        shares = weights[SHARES].double()
        if bool((shares < 0).any()) or abs(float(shares.sum()) - 1) > 1e-3:
            raise ValueError(f"{WEIGHTS}: expected {SHARES} that sum to 1, found {shares.tolist()}")
