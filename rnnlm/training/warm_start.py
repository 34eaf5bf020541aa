"""Warm start: a new model begins with the weights of an earlier one. Rows of tokens are copied by their spelling."""

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

# In a start's folder and in a run's: fingerprints of all documents that the model a run started from has seen.
ANCESTOR_DOCUMENTS = "ancestor_documents.parquet"


def start_folder(home: Home, start: StartedFrom) -> Path:
    """Return the folder of the copied model that a run starts from.

    It has the tokenizer, too, and ANCESTOR_DOCUMENTS if they are known.
    """
    return inside(home.starts, start.model_sha256[:16])


def shared_tokens(tokenizer_folder: Path, earlier: Path) -> dict[int, int]:
    """Return the new id and the id in `earlier` of each token that both vocabularies have."""
    old = load_tokenizer(earlier).vocabulary
    new = load_tokenizer(tokenizer_folder).vocabulary
    return {token_id: old[spelling] for spelling, token_id in new.items() if spelling in old}


def begin_with(model: LanguageModel, tokenizer_folder: Path, earlier: Path) -> None:
    """Give a new model the weights of the model in `earlier`, in place. Tokens that are new keep their initial rows.

    ModelError if the files in `earlier` are missing or damaged.
    """
    if (damage := find_damage(earlier)) is not None:
        raise ModelError(f"{earlier}: {damage};\nrun again with --force training, which decides anew where to start")
    copy_weights(model, load_model(earlier), shared_tokens(tokenizer_folder, earlier))


@torch.no_grad()
def copy_weights(model: LanguageModel, earlier: LanguageModel, shared: dict[int, int]) -> None:
    """Copy an earlier model's weights.

    shared: new token id → id in `earlier`. Apart from vocabularies, shapes are equal.
    """
    new_ids, old_ids = torch.tensor(list(shared)), torch.tensor(list(shared.values()))
    by_token = {"embedding.weight", "head.weight", "head.bias"}
    if model.config["one_hot"]:  # the embedding is the identity, so the first W has a row for each token
        by_token = {"stack.cells.0.W", "head.weight", "head.bias"}
    old_weights = dict(earlier.named_parameters())
    for name, weight in model.named_parameters():
        if name in by_token:
            weight[new_ids] = old_weights[name][old_ids]
        elif weight.requires_grad:  # not the identity
            weight.copy_(old_weights[name])
