"""Build a model from its configuration, and save and load it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.utils.logging import disable_progress_bar

from rnnlm.config import ModelConfig
from rnnlm.errors import ConfigError, ModelError
from rnnlm.models.hugging_face import ElmanConfig, ElmanForCausalLM
from rnnlm.models.initialization import initialize

ONE_HOT_VOCABULARY = 4_096  # largest vocabulary for one-hot input, whose embedding is a square matrix


def build_model(
    config: ModelConfig, vocabulary_size: int, seed: int, log_unigram: np.ndarray | None = None
) -> ElmanForCausalLM:
    """A new model on the CPU. log_unigram: (V,) natural logarithms, used if head_bias is `unigram`.

    ConfigError if the vocabulary is too large for one-hot input.
    """
    if config.input == "one-hot" and vocabulary_size > ONE_HOT_VOCABULARY:
        raise ConfigError(
            f"model.input=one-hot: the vocabulary has {vocabulary_size:,} ids, "
            f"expected at most {ONE_HOT_VOCABULARY:,};\n"
            "use tokenizer.kind=char, or model.input=embedding"
        )
    model = ElmanForCausalLM(architecture(config, vocabulary_size))
    bias = torch.from_numpy(log_unigram) if config.head_bias == "unigram" and log_unigram is not None else None
    initialize(model.language_model, config.recurrent_initialization, torch.Generator().manual_seed(seed), bias)
    if config.input == "one-hot":
        embedding = model.language_model.embedding
        with torch.no_grad():
            nn.init.eye_(embedding.weight)
            embedding.weight[embedding.padding_idx] = 0.0
    return model


def architecture(config: ModelConfig, vocabulary_size: int) -> ElmanConfig:
    """The network's shapes and functions, as they are saved with it."""
    one_hot = config.input == "one-hot"
    return ElmanConfig(
        vocab_size=vocabulary_size,
        hidden_size=config.hidden_size,
        embedding_size=vocabulary_size if one_hot else config.embedding_size,
        num_hidden_layers=config.layers,
        nonlinearity=config.nonlinearity,
        backend=config.backend,
        diagonal=config.recurrence == "diagonal",
        residual=config.residual,
        tie_word_embeddings=config.tie_embeddings,
        one_hot=one_hot,
    )


def load_model(folder: Path, device: str = "cpu") -> ElmanForCausalLM:
    """The model saved in `folder`, in evaluation mode. ModelError if it is missing, damaged or incomplete."""
    if not (folder / "config.json").exists() or not (folder / "model.safetensors").exists():
        raise ModelError(
            f"{folder}: no model here (config.json and model.safetensors); give a run folder or models:/NAME@champion"
        )
    disable_progress_bar()  # noise for six tensors
    try:
        loaded: Any = ElmanForCausalLM.from_pretrained(folder, use_safetensors=True, output_loading_info=True)
    except Exception as error:  # damaged files make transformers and safetensors raise many kinds
        raise ModelError(f"{folder}: the model cannot be loaded ({type(error).__name__}); train it again") from error
    model: ElmanForCausalLM
    model, report = loaded  # transformers only warns of missing weights
    wrong = sorted([*report["missing_keys"], *report["unexpected_keys"]])
    if wrong:
        raise ModelError(f"{folder}: weights do not fit the model: {', '.join(wrong[:3])}; train it again")
    model.to(device)  # type: ignore[arg-type]
    return model.eval()


def save_model(model: ElmanForCausalLM, folder: Path) -> None:
    """Write configuration and weights (safetensors); moves the model to the CPU."""
    disable_progress_bar()
    model.to("cpu")  # type: ignore[arg-type]
    model.save_pretrained(folder)
