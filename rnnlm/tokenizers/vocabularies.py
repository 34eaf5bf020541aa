"""Train char and word tokenizers: the vocabulary lists the most frequent characters or words."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from rnnlm.config import TokenizerConfig
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS

logger = logging.getLogger(__name__)
MAXIMUM_DISTINCT = 2_000_000  # distinct words counted at once: about 250 MB
WHITE_SPACE = r"[\s\x1c-\x1f]"  # Python's str.split, in the library's regular expressions
PUNCTUATION = r"\w+|[^\w\s]"  # runs of letters and digits, and single punctuation marks
TEXTBOOK = r"\b[a-zA-Z0-9]+\b|[.]"  # the textbook's words; everything else is dropped


def train_characters(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """One id per character."""
    tokenizer = Tokenizer(models.WordLevel({}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)|\n"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    return with_vocabulary(tokenizer, counts, config)


def train_words(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """One id per word; `splitting` defines a word."""
    tokenizer = Tokenizer(models.WordLevel({}, unk_token="<unk>"))
    literal = re.escape(config.unknown_literal) if config.unknown_literal else None
    if config.splitting == "whitespace":
        # A normaliser is saved in tokenizer.json: text never becomes a special token.
        never = "|".join([*map(re.escape, ("<pad>", "<bos>", "<eos>")), *([literal] if literal else [])])
        spelled = Regex(rf"(?:(?<=^)|(?<={WHITE_SPACE}))(?:{never})(?:(?=$)|(?={WHITE_SPACE}))")
        tokenizer.normalizer = normalizers.Replace(spelled, "<unk>")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{WHITE_SPACE}+"), "removed")
        words: Iterable[list[str]] = (line.split() for line in lines)
    else:
        pattern = PUNCTUATION if config.splitting == "punctuation" else TEXTBOOK
        if literal:
            # The unknown literal stays one word even if the pattern would split it.
            pattern = rf"(?<!\S){literal}(?!\S)|{pattern}"
            if config.unknown_literal != "<unk>":
                tokenizer.normalizer = normalizers.Replace(Regex(rf"(?<!\S){literal}(?!\S)"), "<unk>")
                pattern = rf"(?<!\S)<unk>(?!\S)|{pattern}"
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        words = library_words(tokenizer, lines)
    counts = count_frequent_words(words)
    counts.pop(str(config.unknown_literal), None)
    return with_vocabulary(tokenizer, counts, config)


def library_words(tokenizer: Tokenizer, lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        yield [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(line)]


def count_frequent_words(words: Iterable[list[str]]) -> Counter[str]:
    """Count words in bounded memory: beyond MAXIMUM_DISTINCT distinct words, the rarest are forgotten.

    Lossy counting (Manku and Motwani 2002): counts are too low by at most the final floor.
    """
    counts: Counter[str] = Counter()
    floor = 0
    for line in words:
        counts.update(line)
        while len(counts) > MAXIMUM_DISTINCT:
            floor += 1
            for word in [word for word, count in counts.items() if count <= floor]:
                del counts[word]
            logger.warning("more than %s distinct words: those seen at most %d times are forgotten", "2 million", floor)
    return counts


def with_vocabulary(tokenizer: Tokenizer, counts: Counter[str], config: TokenizerConfig) -> Tokenizer:
    """Set the vocabulary: the special tokens, then words by descending count and spelling."""
    for token in SPECIAL_TOKENS:
        counts.pop(token, None)
    frequent = (word for word, count in counts.items() if count >= config.minimum_count)
    ordered = sorted(frequent, key=lambda word: (-counts[word], word))
    words = [*SPECIAL_TOKENS, *ordered][: config.vocabulary_size]
    tokenizer.model = models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    return tokenizer
