"""The first step of each kind of tokenizer, which splits a line into pieces before the vocabulary is used.

Training starts with these tokenizers. A saved tokenizer.json must contain the same splitters; see saved_tokenizer.py.
The module is copied into every bundle.
"""

import re
from collections.abc import Callable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

# The white space at which Python's str.split splits, as a regular expression for the tokenizers library.
WHITE_SPACE = r"[\s\x1c-\x1f]"
PUNCTUATION = r"\w+|[^\w\s]"  # A pattern for runs of letters and digits, and for single punctuation marks.
# A pattern for the words of a textbook's tokenizer, which drops all other characters.
TEXTBOOK = r"\b[a-zA-Z0-9]+\b|[.]"
SPLITTINGS = ("whitespace", "punctuation", "textbook")
EMPTY: dict[str, Callable[[], Any]] = {
    "char": lambda: models.WordLevel({}, unk_token="<unk>"),
    "word": lambda: models.WordLevel({}, unk_token="<unk>"),
    "bpe": models.BPE,
    "unigram": models.Unigram,
}


def untrained(kind: str, splitting: str = "whitespace", unknown_literal: str | None = None) -> Tokenizer:
    """Return a tokenizer of one of the kinds in EMPTY, without a vocabulary.

    `splitting` and `unknown_literal` only apply to word tokenizers.
    """
    tokenizer = Tokenizer(EMPTY[kind]())
    if kind == "char":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)|\n"), "isolated")
        tokenizer.decoder = decoders.Fuse()
    elif kind == "word":
        split_words(tokenizer, splitting, unknown_literal)
    else:  # Tokenizers of all other kinds work on bytes.
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def split_words(tokenizer: Tokenizer, splitting: str, unknown_literal: str | None) -> None:
    """Let the tokenizer split texts into words by the method `splitting`."""
    literal = re.escape(unknown_literal) if unknown_literal else None
    if splitting == "whitespace":
        # Words that are spelled like special tokens are replaced by <unk>, so that text never becomes a special token.
        # The normalizer in tokenizer.json replaces them.
        never = "|".join([*map(re.escape, ("<pad>", "<bos>", "<eos>")), *([literal] if literal else [])])
        spelled = Regex(rf"(?:(?<=^)|(?<={WHITE_SPACE}))(?:{never})(?:(?=$)|(?={WHITE_SPACE}))")
        tokenizer.normalizer = normalizers.Replace(spelled, "<unk>")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{WHITE_SPACE}+"), "removed")
        return
    pattern = PUNCTUATION if splitting == "punctuation" else TEXTBOOK
    if literal:
        # The text of the unknown token, such as <unk>, remains one word, even if the pattern would split it.
        pattern = rf"(?<!\S){literal}(?!\S)|{pattern}"
        if unknown_literal != "<unk>":
            tokenizer.normalizer = normalizers.Replace(Regex(rf"(?<!\S){literal}(?!\S)"), "<unk>")
            pattern = rf"(?<!\S)<unk>(?!\S)|{pattern}"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
