"""Warm start: a new model begins with the weights of an earlier one. Tokens with the same spelling share their rows."""

from pathlib import Path

import torch

from rnnlm.errors import ModelError
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home
from rnnlm.storage.records import StartedFrom
from rnnlm.storage.stages import find_damage
from rnnlm.tokenizers.text_tokenizer import load_tokenizer


def start_folder(home: Home, start: StartedFrom) -> Path:
    """Return the folder with the copy of the model from which a run starts.

    The folder also has the model's tokenizer and, if its content is known, the file ANCESTOR_DOCUMENTS.
    """
    return inside(home.starts, start.model_sha256[:16])


def shared_tokens(tokenizer_folder: Path, earlier: Path) -> dict[int, int]:
    """Return a mapping from new to earlier ids of the tokens that both vocabularies contain."""
    old = load_tokenizer(earlier).vocabulary
    new = load_tokenizer(tokenizer_folder).vocabulary
    return {token_id: old[spelling] for spelling, token_id in new.items() if spelling in old}


def begin_with(model: LanguageModel, tokenizer_folder: Path, earlier: Path) -> None:
    """Copy the weights of the model in `earlier` into a new model. New tokens keep their initial rows.

    Raise ModelError if files in `earlier` are missing or damaged.
    """
    if (damage := find_damage(earlier)) is not None:
        raise ModelError(
            f"{earlier}: {damage};\nrun again with --force training, which chooses the initial model again"
        )
    copy_weights(model, load_model(earlier), shared_tokens(tokenizer_folder, earlier))


@torch.no_grad()
def copy_weights(model: LanguageModel, earlier: LanguageModel, shared: dict[int, int]) -> None:
    """Copy the weights of an earlier model into a new one.

    `shared` maps the new id of a token to its id in the earlier model. Apart from the vocabularies, all shapes must be
    equal.
    """
    new_ids, old_ids = torch.tensor(list(shared)), torch.tensor(list(shared.values()))
    by_token = {"embedding.weight", "head.weight", "head.bias"}
    # With one-hot inputs, each row of the first W belongs to a token, so these rows are copied by token.
    if model.config["one_hot"]:
        by_token = {"stack.cells.0.W", "head.weight", "head.bias"}
    old_weights = dict(earlier.named_parameters())
    for name, weight in model.named_parameters():
        if name in by_token:
            weight[new_ids] = old_weights[name][old_ids]
        elif weight.requires_grad:
            weight.copy_(old_weights[name])
