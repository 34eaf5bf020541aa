"""Char and word tokenizers, whose vocabulary is a list of the most frequent characters or words."""

from collections import Counter

from tokenizers import Tokenizer, models

from rnnlm.config import TokenizerConfig
from rnnlm.tokenizers.splitters import untrained
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS


def train_vocabulary(counts: Counter[str], config: TokenizerConfig) -> Tokenizer:
    """Return a tokenizer of the special tokens and the counted words, ordered by descending count, then spelling."""
    tokenizer = untrained(config.kind, config.splitting, config.unknown_literal)
    left_out = {*SPECIAL_TOKENS, *([config.unknown_literal] if config.kind == "word" else [])}
    frequent = (word for word, count in counts.items() if count >= config.minimum_count and word not in left_out)
    ordered = sorted(frequent, key=lambda word: (-counts[word], word))
    words = [*SPECIAL_TOKENS, *ordered][: config.vocabulary_size]
    tokenizer.model = models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>")
    return tokenizer
