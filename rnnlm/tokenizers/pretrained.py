"""Pretrained tokenizers, renumbered so that their special tokens have the same ids as in all other tokenizers."""

import json
from typing import Any

from tokenizers import Tokenizer

from rnnlm.errors import ModelError
from rnnlm.tokenizers.saved_tokenizer import PRETRAINED_PREFIX
from rnnlm.tokenizers.subwords import UNREACHABLE
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS

# The names of the special tokens in transformers, in the order of SPECIAL_TOKENS.
ROLES = ("pad_token", "unk_token", "bos_token", "eos_token")


def load_pretrained(name: str) -> Tokenizer:
    """Load a tokenizer with AutoTokenizer, from a folder or from a repository on the Hugging Face hub.

    Raise ModelError if it does not exist, has no tokenizer.json, or needs code from the repository.
    """
    from transformers import AutoTokenizer

    setting = f"tokenizer.kind: {PRETRAINED_PREFIX}{name}"
    try:
        loaded: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # transformers raises errors of many types for a wrong folder or a network failure.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"{setting}: AutoTokenizer cannot load this tokenizer ({reason:.160});\n"
            "give a folder with tokenizer.json, or a repository of a reachable hub"
        ) from error
    if not getattr(loaded, "is_fast", False):
        raise ModelError(f"{setting}: this tokenizer has no tokenizer.json; save it as a fast tokenizer first")
    roles = [getattr(loaded, role) for role in ROLES]
    return Tokenizer.from_str(json.dumps(renumbered(json.loads(loaded.backend_tokenizer.to_str()), roles)))


def renumbered(saved: dict[str, Any], roles: list[str | None]) -> dict[str, Any]:
    """Return a tokenizer.json with <pad> as id 0, <unk> as 1, <bos> as 2 and <eos> as 3, followed by all other pieces.

    `roles` are the tokenizer's own spellings of the four special tokens. A missing spelling, or one with two roles, is
    replaced by rnnlm's spelling. The post-processor is removed, because rnnlm adds <bos> and <eos> to sequences itself.
    """
    special = own_spellings(roles)
    model = saved["model"]
    # The vocabulary of a unigram model is a list of [piece, score] in the order of ids.
    is_unigram = isinstance(model["vocab"], list)
    scores: dict[str, float] = dict(model["vocab"]) if is_unigram else {}
    old: dict[str, int] = {piece: id for id, piece in enumerate(scores)} if is_unigram else dict(model["vocab"])
    old |= {added["content"]: added["id"] for added in saved["added_tokens"]}
    others = sorted((piece for piece in old if piece not in special), key=lambda piece: old[piece])
    new = {piece: id for id, piece in enumerate([*special, *others])}
    # All added tokens are inserted into the model's vocabulary, because the library otherwise does not recognize them.
    if is_unigram:
        model["vocab"] = [[piece, UNREACHABLE if piece in special else scores.get(piece, UNREACHABLE)] for piece in new]
        model["unk_id"] = 1
    else:
        model["vocab"] = new
        if model.get("unk_token") is not None and model["unk_token"] not in new:
            model["unk_token"] = special[1]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added_tokens = [{**added, "id": new[added["content"]]} for added in saved["added_tokens"]]
    saved["added_tokens"] = [{"id": id, "content": piece, **flags} for id, piece in enumerate(special)] + sorted(
        (added for added in added_tokens if added["content"] not in special), key=lambda added: added["id"]
    )
    return saved | {"post_processor": None, "truncation": None, "padding": None}


def own_spellings(roles: list[str | None]) -> list[str]:
    """Return four different spellings of the special tokens, in the order of SPECIAL_TOKENS.

    These are the tokenizer's own spellings if each of them has a single role, otherwise rnnlm's.
    """
    return [
        ours if spelling is None or roles.count(spelling) > 1 else spelling
        for ours, spelling in zip(SPECIAL_TOKENS, roles, strict=True)
    ]
