"""A reader of saved tokenizers, which accepts only files that rnnlm can have written.

The folder may be damaged, or come from another user. A malicious tokenizer.json may contain regular expressions that
never end, replace a space by a megabyte, or pad each text to 2^36 tokens. The components of rnnlm's own kinds of
tokenizers follow from their settings, so the file is compared with these settings. A pretrained tokenizer may have any
component of the library, except replacements with which texts grow without bounds. The module is copied into every
bundle.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from .splitters import EMPTY, SPLITTINGS, untrained

TOKENIZER_FILE = "tokenizer.json"
PRETRAINED_PREFIX = "pretrained:"
LARGEST_VOCABULARY = 1 << 24
# The largest number of characters in unknown_literal, the corpus's own spelling of unknown words.
LONGEST_LITERAL = 1_000
# The largest factor by which the replacements of a pretrained tokenizer may make a text longer.
LARGEST_TEXT_GROWTH = 1_000


def read_tokenizer(folder: Path, settings: dict[str, Any], special_tokens: Sequence[str]) -> Tokenizer:
    """Return the library's tokenizer in `folder`. Raise ValueError if a file is damaged.

    `settings` is the content of rnnlm_tokenizer.json.
    """
    kind = settings.get("kind")
    if not isinstance(kind, str) or not (kind in EMPTY or kind.startswith(PRETRAINED_PREFIX)):
        raise ValueError(f"kind: expected {', '.join(EMPTY)} or {PRETRAINED_PREFIX}NAME, found {ascii(kind):.60}")
    if settings.get("splitting") not in SPLITTINGS:
        found = ascii(settings.get("splitting"))
        raise ValueError(f"splitting: expected {' or '.join(SPLITTINGS)}, found {found:.60}")
    literal = settings.get("unknown_literal")
    if literal is not None and not (isinstance(literal, str) and len(literal) <= LONGEST_LITERAL):
        raise ValueError(f"unknown_literal: expected a short word or null, found {ascii(literal):.60}")
    text = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
    saved = json.loads(text)
    check_components(saved, kind, settings["splitting"], literal)
    try:
        tokenizer = Tokenizer.from_str(text)
        vocabulary = tokenizer.get_vocab()
    except Exception as error:  # The library raises only errors of the type Exception.
        raise ValueError(f"{TOKENIZER_FILE}: {str(error)[:80]}") from error
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError(f"{TOKENIZER_FILE}: expected a spelling for each of the ids 0 to {len(vocabulary) - 1:,}")
    if len(vocabulary) <= len(special_tokens):
        raise ValueError(f"{TOKENIZER_FILE}: expected more than the {len(special_tokens)} special tokens")
    if kind in EMPTY and any(vocabulary.get(spelled) != place for place, spelled in enumerate(special_tokens)):
        raise ValueError(f"{TOKENIZER_FILE}: expected the ids 0 to 3 for {', '.join(special_tokens)}")
    if (size := settings.get("vocabulary_size", len(vocabulary))) != len(vocabulary):
        raise ValueError(f"{TOKENIZER_FILE}: expected {ascii(size):.20} tokens, found {len(vocabulary):,}")
    if (size := size_of_model(folder)) not in (None, len(vocabulary)):
        raise ValueError(f"{TOKENIZER_FILE}: expected the model's {ascii(size):.20} tokens, found {len(vocabulary):,}")
    return tokenizer


def size_of_model(folder: Path) -> Any:
    """Return the vocabulary size in the model's config.json, or None if the folder has no such file."""
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8")).get("vocab_size")
    # A damaged config.json is reported later, by the reader of the model.
    except (OSError, ValueError, RecursionError, AttributeError):
        return None


def check_components(saved: Any, kind: str, splitting: str, literal: str | None) -> None:
    """Raise ValueError if a tokenizer.json has components that tokenizers of this kind do not have."""
    if not isinstance(saved, dict) or not isinstance(saved.get("model"), dict):
        raise ValueError(f"{TOKENIZER_FILE}: expected a JSON object with a model")
    for name in ("truncation", "padding"):
        if saved.get(name) is not None:
            raise ValueError(f"{TOKENIZER_FILE}: {name}: expected null, found {ascii(saved[name]):.60}")
    if kind not in EMPTY:
        for name in ("normalizer", "decoder"):
            if growth(saved.get(name)) > LARGEST_TEXT_GROWTH:
                raise ValueError(
                    f"{TOKENIZER_FILE}: {name}: replacements make texts {LARGEST_TEXT_GROWTH:,} times as long"
                )
        return
    expected = json.loads(untrained(kind, splitting, literal).to_str())
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        if not is_part(saved.get(name), expected[name]):
            raise ValueError(
                f"{TOKENIZER_FILE}: {name}: expected {ascii(expected[name]):.60}, found {ascii(saved.get(name)):.60}"
            )
    for name, value in expected["model"].items():
        if name not in ("vocab", "merges", "unk_id") and saved["model"].get(name, value) != value:
            raise ValueError(
                f"{TOKENIZER_FILE}: {name}: expected {ascii(value)}, found {ascii(saved['model'][name]):.60}"
            )


def is_part(found: Any, expected: Any) -> bool:
    """Return True if `found` equals `expected`, apart from fields that older versions of the library lack."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return bool(found == expected)
    return found.get("type") == expected["type"] and found.items() <= expected.items()


def growth(component: Any) -> float:
    """Return the factor by which the replacements in a component may make a text longer."""
    factor = 1.0
    for part in parts(component):
        added = part.get("content", part.get("prepend"))
        if isinstance(added, str):
            factor *= max(1, len(added))
    return factor


def parts(component: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a component of a tokenizer.json, which may be a sequence of components."""
    waiting = [component]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found
