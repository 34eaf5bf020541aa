"""Somebody else's tokenizer, renumbered so that our four special tokens have the ids they have everywhere."""

import json
from typing import Any

from tokenizers import Tokenizer

from rnnlm.errors import ModelError
from rnnlm.tokenizers.subwords import UNREACHABLE
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS

PRETRAINED_PREFIX = "pretrained:"
ROLES = ("pad_token", "unk_token", "bos_token", "eos_token")  # in the order of SPECIAL_TOKENS


def load_pretrained(name: str) -> Tokenizer:
    """The tokenizer of a folder or of a repository on the Hugging Face hub, through AutoTokenizer.

    ModelError where there is none, or only one that is not saved as tokenizer.json, or that comes with code to run.
    """
    from transformers import AutoTokenizer

    try:
        loaded: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # whatever a wrong folder or an absent network makes of transformers
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"tokenizer.kind: {PRETRAINED_PREFIX}{name}: AutoTokenizer cannot load it ({reason:.160});\n"
            "give a folder with tokenizer.json, or a repository of a hub that can be reached"
        ) from error
    if not getattr(loaded, "is_fast", False):
        raise ModelError(f"tokenizer.kind: {PRETRAINED_PREFIX}{name}: has no tokenizer.json; save it with a fast tokenizer first")
    roles = [getattr(loaded, role) for role in ROLES]
    return Tokenizer.from_str(json.dumps(renumbered(json.loads(loaded.backend_tokenizer.to_str()), roles)))


def renumbered(saved: dict[str, Any], roles: list[str | None]) -> dict[str, Any]:
    """tokenizer.json with <pad> 0, <unk> 1, <bos> 2, <eos> 3; all other pieces keep their order after them.

    roles: how that tokenizer spells the four; a spelling that is missing or serves two roles gets ours instead.
    Its post-processor goes: beginnings and ends of sequences are put in by the sequences.
    """
    special = own_spellings(roles)
    model = saved["model"]
    listed = isinstance(model["vocab"], list)  # Unigram: [piece, score] in order of id
    scores: dict[str, float] = dict(model["vocab"]) if listed else {}
    old: dict[str, int] = {piece: id for id, piece in enumerate(scores)} if listed else dict(model["vocab"])
    old |= {added["content"]: added["id"] for added in saved["added_tokens"]}
    others = sorted((piece for piece in old if piece not in special), key=lambda piece: old[piece])
    new = {piece: id for id, piece in enumerate([*special, *others])}
    # Added tokens are recognised by the library only where the model knows them, too: all go into the model.
    model["vocab"] = [[piece, UNREACHABLE if piece in special else scores.get(piece, UNREACHABLE)] for piece in new]
    if not listed:
        model["vocab"] = new
    if listed:
        model["unk_id"] = 1
    elif model.get("unk_token") is not None and model["unk_token"] not in new:
        model["unk_token"] = special[1]
    kept = [added for added in saved["added_tokens"] if added["content"] not in special]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    saved["added_tokens"] = [{"id": id, "content": piece, **flags} for id, piece in enumerate(special)] + sorted(
        ({**added, "id": new[added["content"]]} for added in kept), key=lambda added: added["id"]
    )
    return saved | {"post_processor": None, "truncation": None, "padding": None}


def own_spellings(roles: list[str | None]) -> list[str]:
    """Four different spellings, in the order of SPECIAL_TOKENS."""
    chosen: list[str] = []
    for ours, theirs in zip(SPECIAL_TOKENS, roles, strict=True):
        shared = theirs is None or roles.count(theirs) > 1
        chosen.append(ours if shared or theirs is None else theirs)
    return chosen
