"""Functions that build a model from its configuration, save it and load it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from rnnlm.config.kinds import KINDS, kind_of
from rnnlm.config.model_config import ModelConfig
from rnnlm.errors import ConfigError, ModelError
from rnnlm.models.initialization import initialize
from rnnlm.models.language_model import LanguageModel, layer_class
from rnnlm.models.mixture import save_mixture
from rnnlm.models.own_layers import import_configured, import_known, own_kinds
from rnnlm.models.saved_config import read_object
from rnnlm.models.saved_model import read_saved_model
from rnnlm.storage.home import write_json
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, PAD

# The errors that libraries and layers raise for a folder with files that save_model() did not write.
UNREADABLE = (AttributeError, ImportError, LookupError, OSError, TypeError, ValueError, RuntimeError, SafetensorError)
# The largest vocabulary for one-hot input, for which the embedding is a square matrix of the vocabulary's size.
ONE_HOT_VOCABULARY = 4_096


def build_model(
    config: ModelConfig, vocabulary_size: int, seed: int, log_unigram: np.ndarray | None = None
) -> LanguageModel:
    """Return a new model on the CPU.

    `log_unigram`, (V,), contains natural logarithms, and is used if head_bias is `unigram`. Raise ConfigError if the
    vocabulary is too large for one-hot input, or if a custom layer cannot be imported.
    """
    check_kind(config.kind)
    if config.input == "one-hot" and vocabulary_size > ONE_HOT_VOCABULARY:
        raise ConfigError(
            f"model.input=one-hot: the vocabulary has {vocabulary_size:,} ids, "
            f"expected at most {ONE_HOT_VOCABULARY:,};\n"
            "use tokenizer.kind=char, or model.input=embedding"
        )
    model = LanguageModel(architecture(config, vocabulary_size))
    bias = torch.from_numpy(log_unigram) if config.head_bias == "unigram" and log_unigram is not None else None
    initialize(model, config, torch.Generator().manual_seed(seed), bias)
    if config.input == "one-hot":
        with torch.no_grad():
            nn.init.eye_(model.embedding.weight)
            model.embedding.weight[PAD] = 0.0
    return model


def check_kind(name: str) -> None:
    """Import the class of a custom layer by its name in a configuration.

    Raise ConfigError if it cannot be imported or is not a Cell.
    """
    if name not in KINDS:
        import_configured(name)
    try:
        layer_class(kind_of(name))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"model.kind={name}: {error};\ncheck that the folder of its module is on PYTHONPATH"
        ) from error


def architecture(config: ModelConfig, vocabulary_size: int) -> dict[str, Any]:
    """Return the content of config.json, which determines the shapes and functions of the network.

    AutoConfig of transformers reads this file, too.
    """
    one_hot = config.input == "one-hot"
    kind = kind_of(config.kind)
    own = {name: getattr(config, name) for name in ("heads", "attention_window") if name in kind.settings}
    # The sizes of a network are the smallest allowed ones, because an n-gram model has no network.
    if not config.has_network:
        config = config.model_copy(
            update={"hidden_size": 1, "embedding_size": 1, "layers": 1, "tie_embeddings": True, "residual": False}
        )
    plain = {
        "model_type": "rnnlm",
        "architectures": ["RnnlmForCausalLM"],
        "dtype": "float32",
        "kind": config.kind,
        "vocab_size": vocabulary_size,
        "hidden_size": config.units,
        "embedding_size": vocabulary_size if one_hot else config.embedding_size or config.units,
        "num_hidden_layers": config.layers,
        "nonlinearity": config.nonlinearity,
        "backend": config.backend,
        "diagonal": config.recurrence == "diagonal",
        "residual": config.is_residual,
        "branch_scale": 1 / config.layers if config.is_residual else 1.0,
        "tie_word_embeddings": config.tie_embeddings,
        "one_hot": one_hot,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    return plain | own


def load_model(folder: Path, device: str = "cpu") -> LanguageModel:
    """Return the model in `folder` in evaluation mode. Raise ModelError if it is missing, damaged or incomplete."""
    weights_path = folder / "model.safetensors"
    if not (folder / "config.json").exists() or not weights_path.exists():
        raise ModelError(
            f"{folder}: expected a model (config.json, model.safetensors), found none;\n"
            "give a run folder or models:/NAME@champion"
        )
    try:
        import_known(own_kinds(read_object(folder / "config.json")))
        model = read_saved_model(folder)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    except UNREADABLE as error:
        raise ModelError(
            f"{folder}: the model cannot be loaded: {' '.join(str(error).split())[:300]};\n"
            "copy it again from its source, or train it again"
        ) from error
    return model.to(device)


def load_network(folder: Path, device: str = "cpu") -> LanguageModel:
    """Return the single network in `folder` in evaluation mode. Raise ModelError if the folder has an ensemble.

    Code that reads the layers of the network must use this function. Other errors are those of load_model().
    """
    model = load_model(folder, device)
    if len(model.networks) > 1:
        raise ModelError(
            f"{folder}: is an ensemble of {len(model.networks)} networks, expected a single network;\n"
            "give the run of one of its networks"
        )
    return model


def save_model(model: LanguageModel, folder: Path) -> None:
    """Write the model's configuration and weights to `folder`, and its n-gram model if it has one.

    The model is moved to the CPU.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", dict(model.config))
    save_file(model.to("cpu").saved_weights(), folder / "model.safetensors", metadata={"format": "pt"})
    save_mixture(model.mixture, folder)
