"""Char and word tokenizers: the vocabulary lists the most frequent characters or words."""

import re
from collections import Counter

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from rnnlm.config import TokenizerConfig
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS

WHITE_SPACE = r"[\s\x1c-\x1f]"  # Python's str.split, in the library's regular expressions
PUNCTUATION = r"\w+|[^\w\s]"  # runs of letters and digits, and single punctuation marks
TEXTBOOK = r"\b[a-zA-Z0-9]+\b|[.]"  # the textbook's words; everything else is dropped


def train_vocabulary(counts: Counter[str], config: TokenizerConfig) -> Tokenizer:
    """The tokenizer that knows the special tokens, then words by descending count and spelling."""
    tokenizer = splitter(config)
    left_out = {*SPECIAL_TOKENS, *([config.unknown_literal] if config.kind == "word" else [])}
    frequent = (word for word, count in counts.items() if count >= config.minimum_count and word not in left_out)
    ordered = sorted(frequent, key=lambda word: (-counts[word], word))
    words = [*SPECIAL_TOKENS, *ordered][: config.vocabulary_size]
    tokenizer.model = models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    return tokenizer


def splitter(config: TokenizerConfig) -> Tokenizer:
    """A tokenizer of characters or words without a vocabulary."""
    return character_splitter() if config.kind == "char" else word_splitter(config)


def character_splitter() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)|\n"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def word_splitter(config: TokenizerConfig) -> Tokenizer:
    """`splitting` defines a word."""
    tokenizer = Tokenizer(models.WordLevel({}, unk_token="<unk>"))
    literal = re.escape(config.unknown_literal) if config.unknown_literal else None
    if config.splitting == "whitespace":
        # A normaliser is saved in tokenizer.json: text never becomes a special token.
        never = "|".join([*map(re.escape, ("<pad>", "<bos>", "<eos>")), *([literal] if literal else [])])
        spelled = Regex(rf"(?:(?<=^)|(?<={WHITE_SPACE}))(?:{never})(?:(?=$)|(?={WHITE_SPACE}))")
        tokenizer.normalizer = normalizers.Replace(spelled, "<unk>")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{WHITE_SPACE}+"), "removed")
    else:
        pattern = PUNCTUATION if config.splitting == "punctuation" else TEXTBOOK
        if literal:
            # The unknown literal stays one word even if the pattern would split it.
            pattern = rf"(?<!\S){literal}(?!\S)|{pattern}"
            if config.unknown_literal != "<unk>":
                tokenizer.normalizer = normalizers.Replace(Regex(rf"(?<!\S){literal}(?!\S)"), "<unk>")
                pattern = rf"(?<!\S)<unk>(?!\S)|{pattern}"
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return tokenizer
