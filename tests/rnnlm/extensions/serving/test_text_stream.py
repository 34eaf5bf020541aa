"""The streamed pieces of text, one for each token, form the whole text when they are joined."""

import random

import pytest

from rnnlm.config import TokenizerConfig
from rnnlm.extensions.serving.text_stream import IncrementalDecoder
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "unigram"])
def test_pieces_joined_are_the_decoded_text(home: Home, toy_corpus: CorpusRecord, kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocabulary_size=320)
    tokenizer = load_tokenizer(train_tokenizer(home, toy_corpus, config).folder)
    draw = random.Random(0)
    for prompt in ("", "the cat", "the c"):
        prompt_ids = tokenizer.encode(prompt)
        # The ids are arbitrary: special tokens and parts of characters occur in any order.
        ids = [draw.randrange(tokenizer.vocabulary_size) for _ in range(60)]
        growing = IncrementalDecoder(tokenizer, prompt_ids)
        pieces = [growing.add(token_id) for token_id in ids]
        whole = tokenizer.decode([*prompt_ids, *ids])
        assert (tokenizer.decode(prompt_ids) + "".join(pieces)).rstrip("\ufffd") == whole.rstrip("\ufffd")


def test_a_character_is_shown_when_it_is_complete(home: Home, toy_corpus: CorpusRecord) -> None:
    config = TokenizerConfig(kind="bpe", vocabulary_size=300)
    tokenizer = load_tokenizer(train_tokenizer(home, toy_corpus, config).folder)
    ids = tokenizer.encode("é!")  # "é" has two bytes, which the tokenizer of this corpus never merged into one token.
    growing = IncrementalDecoder(tokenizer)
    assert [growing.add(token_id) for token_id in ids] == ["", "é", "!"]
