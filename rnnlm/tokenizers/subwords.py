"""Training of bpe and unigram tokenizers over bytes, which encode every text without loss."""

import json
from collections.abc import Iterator

from tokenizers import Tokenizer, pre_tokenizers, trainers

from rnnlm.config import TokenizerConfig
from rnnlm.tokenizers.splitters import untrained
from rnnlm.tokenizers.text_tokenizer import SPECIAL_TOKENS

# The log-probability of a special token's spelling in a unigram model. It is so low that such text is always encoded by
# its bytes.
UNREACHABLE = -1e6


def train_bpe(lines: Iterator[str], config: TokenizerConfig) -> Tokenizer:
    """Train byte-pair encoding (Sennrich et al. 2016) over bytes (Radford et al. 2019)."""
    assert config.vocabulary_size is not None, "see with_vocabulary_size"
    tokenizer = untrained("bpe")
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary_size,
        min_frequency=config.minimum_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def train_unigram(lines: Iterator[str], config: TokenizerConfig) -> Tokenizer:
    """Train a unigram language model of subwords (Kudo 2018) over bytes."""
    assert config.vocabulary_size is not None, "see with_vocabulary_size"
    tokenizer = untrained("unigram")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        unk_token="<unk>",
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    saved = json.loads(tokenizer.to_str())
    pieces = [[piece, UNREACHABLE if piece in SPECIAL_TOKENS else score] for piece, score in saved["model"]["vocab"]]
    # The trainer may leave out bytes that do not occur in the training text. They are added here.
    known = {piece for piece, _ in pieces}
    rarest = min(score for piece, score in pieces if score > UNREACHABLE)
    pieces += [[byte, rarest - 1.0] for byte in alphabet if byte not in known]
    saved["model"]["vocab"] = pieces
    return Tokenizer.from_str(json.dumps(saved))
