"""A tokenizer learns only from the training split. A saved tokenizer gives the same tokens after it is loaded.

No text becomes a special token.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import ByteRange, CorpusDocument, documents_in
from rnnlm.errors import ModelError
from rnnlm.evaluation.baselines import split_facts
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, TokenizerRecord
from rnnlm.tokenizers import tokenizer_training
from rnnlm.tokenizers.pretrained import load_pretrained
from rnnlm.tokenizers.subwords import train_bpe, train_unigram
from rnnlm.tokenizers.text_tokenizer import (
    BOS,
    EOS,
    PAD,
    PLAIN_END_BITS,
    PLAIN_GAP_BITS,
    REMEMBERED_PIECES,
    UNK,
    PieceIds,
    TextTokenizer,
    load_tokenizer,
)
from rnnlm.tokenizers.token_colors import coloured
from rnnlm.tokenizers.tokenizer_training import train_tokenizer, training_lines, with_vocabulary_size
from rnnlm.tokenizers.vocabularies import train_vocabulary
from rnnlm.tokenizers.word_counts import count_words

TrainPieces = Callable[[Iterator[str], TokenizerConfig], Tokenizer]
TRAIN = "b b b c c a a <unk> <eos>\nd\n"


def train(home: Home, folder: Path, **settings: object) -> TokenizerRecord:
    folder.mkdir(exist_ok=True)
    for split, text in (("train", TRAIN), ("valid", "z z z z z\n"), ("test", "y\n")):
        (folder / f"{split}.txt").write_text(text)
    source = CorpusConfig(source=str(folder))
    config = TokenizerConfig.model_validate({"kind": "word"} | settings)
    return train_tokenizer(home, obtain_corpus(home, source), config)


def test_words_are_numbered_by_falling_count_then_spelling(home: Home, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(train(home, tmp_path / "c").folder)
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.pieces(range(8)) == ["<pad>", "<unk>", "<bos>", "<eos>", "b", "a", "c", "d"]
    # The words z and y are not in the vocabulary, because they do not occur in the training split.
    assert tokenizer.vocabulary_size == 8
    assert tokenizer.encode("  d a\tq ") == [7, 5, UNK]


def test_a_short_text_has_fewer_subwords_unless_asked_otherwise() -> None:
    sizes = {
        byte_count: with_vocabulary_size(TokenizerConfig(kind="bpe"), byte_count).vocabulary_size
        for byte_count in (0, 30_000, 300_000, 4_000_000, 10**12)
    }
    assert sizes == {0: 512, 30_000: 693, 300_000: 2_191, 4_000_000: 8_000, 10**12: 8_000}
    assert with_vocabulary_size(TokenizerConfig(kind="bpe", vocabulary_size=300), 10).vocabulary_size == 300
    assert with_vocabulary_size(TokenizerConfig(kind="word"), 10).vocabulary_size == 8_000
    assert with_vocabulary_size(TokenizerConfig(kind="char"), 10).vocabulary_size == 8_000


def test_special_tokens_never_come_from_words(home: Home, tmp_path: Path) -> None:
    folder = train(home, tmp_path / "c").folder
    text = "a <pad> <bos> <eos> <unk> b<eos>"
    expected = [5, UNK, UNK, UNK, UNK, UNK]
    assert load_tokenizer(folder).encode(text) == expected
    assert AutoTokenizer.from_pretrained(folder).encode(text, add_special_tokens=False) == expected


def test_the_corpus_own_literal_is_not_an_unknown_word(home: Home, tmp_path: Path) -> None:
    assert load_tokenizer(train(home, tmp_path / "c").folder).unknown_words("a <unk> <eos> q") == [
        "<eos>",
        "q",
    ]
    none = load_tokenizer(train(home, tmp_path / "c", unknown_literal=None).folder)
    assert none.unknown_words("a <unk>") == ["<unk>"]
    other = load_tokenizer(train(home, tmp_path / "c", unknown_literal="d").folder)
    assert other.encode("d a") == [UNK, 5]
    assert other.unknown_words("d a") == []


# The random texts have spaces of all kinds, special characters of the library's pattern, and spellings of special
# tokens.
ODD_TEXT = st.lists(
    st.sampled_from([*"ab1é中'.\u0301\t\n\r\x1c\x85\xa0\u2003\u2028\u200b", *[" "] * 4, "'s", "<eos>", "cat"])
)

PLAIN_TEXT = st.lists(st.sampled_from([*"abXY109'.,-_~!\"", *[" "] * 6, "'s", "'ll", "'re", "cat", "<eos>"]))


@pytest.mark.parametrize("train_pieces", [train_bpe, train_unigram])
def test_a_line_has_the_tokens_that_the_library_finds(train_pieces: TrainPieces) -> None:
    lines = ["the cat's   mat\t a  b", "a\xa0b a\x1cb 1a.b"] * 20
    library = train_pieces(iter(lines), TokenizerConfig(kind="bpe", vocabulary_size=300, minimum_count=1))
    tokenizer = TextTokenizer(library, "bpe")

    @given(ODD_TEXT | PLAIN_TEXT)
    def check(parts: list[str]) -> None:
        line = "".join(parts)
        assert tokenizer.encode(line) == library.encode(line, add_special_tokens=False).ids

    check()
    for line in lines:
        assert tokenizer.encode(line) == library.encode(line, add_special_tokens=False).ids


def test_a_full_memory_of_pieces_starts_anew() -> None:
    encoded: list[str] = []

    def encode(piece: str) -> list[int]:
        encoded.append(piece)
        return [len(piece)]

    pieces = PieceIds(encode)
    names = [str(number) for number in range(REMEMBERED_PIECES + 1)]
    assert [pieces[name] for name in names[:2] * 2] == [np.int32(1).tobytes()] * 4
    assert encoded == names[:2]
    for name in names:
        pieces[name]
    assert len(pieces) == 1
    assert pieces["x" * 1_000] == np.int32(1_000).tobytes()
    assert len(pieces) == 1  # A long piece is not stored, because it is unlikely to occur again.


def test_subwords_are_learnt_from_pieces_all_over_a_large_text(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {number:05d}" for number in range(10_000)]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n\n" for line in lines))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "text.txt"), valid_share=0, test_share=0))
    read: list[CorpusDocument] = []

    def documents_read(corpus: CorpusRecord, byte_range: ByteRange) -> Iterator[CorpusDocument]:
        for document in documents_in(corpus, byte_range):
            read.append(document)
            yield document

    monkeypatch.setattr(tokenizer_training, "PIECE_BYTES", 60)  # Each excerpt then has about five lines.
    monkeypatch.setattr(tokenizer_training, "documents_in", documents_read)
    assert [line for line in training_lines(corpus, corpus.corpus_bytes) if line] == lines
    read.clear()
    found = [line for line in training_lines(corpus, corpus.corpus_bytes // 10) if line]
    # The size of the excerpts varies, because each excerpt extends to the end of a line.
    assert 900 < len(found) < 1_300
    assert len(read) < 1_500  # The text between the excerpts is not read.
    assert all(any(line in found for line in lines[first : first + 60]) for first in range(0, 10_000, 60))


CAT = ["the cat sees"] * 9
CONFIG = TokenizerConfig(kind="bpe", vocabulary_size=270)
BYTE_LEVEL = {
    "bpe": TextTokenizer(train_bpe(iter(CAT), CONFIG), "bpe"),
    "unigram": TextTokenizer(train_unigram(iter(CAT), CONFIG), "unigram"),
}
ALPHABET = "abc é日\t<>pad|"


def trained_on(text: str, config: TokenizerConfig) -> TextTokenizer:
    tokenizer = train_vocabulary(count_words([text], config), config)
    return TextTokenizer(tokenizer, config.kind, config.unknown_literal, config.splitting)


CHARACTERS = trained_on(ALPHABET, TokenizerConfig(kind="char"))


@pytest.mark.parametrize("kind", BYTE_LEVEL)
@given(text=st.text(alphabet=st.characters(codec="utf-8")))
@pytest.mark.long
def test_byte_level_tokenizers_restore_every_text(kind: str, text: str) -> None:
    tokenizer = BYTE_LEVEL[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(token_id > EOS for token_id in ids)
    assert tokenizer.unknown_words(text) == []


SPELLINGS = st.lists(st.sampled_from(["<pad>", "<eos>", "<bos>", "<unk>", " ", "cat", "é", "<"])).map("".join)


@pytest.mark.parametrize("kind", BYTE_LEVEL)
@settings(max_examples=30)
@given(text=SPELLINGS)
def test_byte_level_keeps_the_spelling_of_special_tokens_as_text(kind: str, text: str) -> None:
    assert BYTE_LEVEL[kind].decode(BYTE_LEVEL[kind].encode(text)) == text


@given(text=st.text(alphabet=ALPHABET))
def test_characters_restore_every_text_of_their_alphabet(text: str) -> None:
    ids = CHARACTERS.encode(text)
    assert len(ids) == len(text)  # Each character has one id.
    assert all(token_id > EOS for token_id in ids)
    assert CHARACTERS.decode(ids) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_a_saved_tokenizer_is_the_same_for_us_and_for_transformers(home: Home, tmp_path: Path, kind: str) -> None:
    folder = train(home, tmp_path / "c", kind=kind, vocabulary_size=270).folder
    text = "a <eos> b <unk> c"
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
    assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text)) == text
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 1, 2, 3)
    assert ours.unknown_words(text) == []


@pytest.mark.parametrize(
    "codes",
    [
        pytest.param(range(0x10000), id="basic-plane"),
        # This case tests a million characters.
        pytest.param(range(0x10000, 0x110000), id="all-others", marks=pytest.mark.slow),
    ],
)
def test_white_space_is_what_python_splits_at(home: Home, tmp_path: Path, codes: range) -> None:
    """rnnlm's lookup of words and the saved tokenizer split at the same characters as Python's str.split.

    All characters of Unicode are tested.
    """
    folder = train(home, tmp_path / "c").folder
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for start in codes[::0x4000]:
        characters = [chr(code) for code in range(start, start + 0x4000) if not 0xD800 <= code < 0xE000]
        if characters:
            text = "".join(f"a{character}b <eos>{character}" for character in characters)
            assert theirs.encode(text, add_special_tokens=False) == ours.encode(text), hex(start)


@pytest.mark.parametrize(
    ("splitting", "pieces", "gaps"),
    [
        ("whitespace", ["Don't", "stop,", "A1", "now..."], ["  "]),
        ("punctuation", ["Don", "'", "t", "stop", ",", "A1", "now", ".", ".", "."], ["  "]),
        ("textbook", ["Don", "t", "stop", "A1", "now", ".", ".", "."], ["'", "  ", ", "]),
    ],
)
def test_what_a_word_is_can_be_chosen(splitting: str, pieces: list[str], gaps: list[str]) -> None:
    config = TokenizerConfig.model_validate({"kind": "word", "splitting": splitting})
    text = "Don't  stop, A1 now..."
    tokenizer = trained_on(text, config)
    assert tokenizer.pieces(tokenizer.encode(text)) == pieces
    assert [gap for gap, _ in tokenizer.unexpected_gaps(text)] == gaps
    assert (
        tokenizer.unknown_words("A1 <unk> <eos>")
        == {
            "whitespace": ["<eos>"],
            "punctuation": ["<", "eos", ">"],
            "textbook": ["eos"],
        }[splitting]
    )


def test_dropped_text_costs_bits(home: Home, tmp_path: Path) -> None:
    """Bits per byte include the text that a tokenizer drops, because otherwise dropping text would improve them."""
    (tmp_path / "c.txt").write_text("a, b!\n" * 3)
    source = CorpusConfig(source=str(tmp_path / "c.txt"), valid_share=0, test_share=0)
    corpus = obtain_corpus(home, source)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word", splitting="textbook"))
    dataset = store_sequences(home, corpus, tokenizer, SequencesConfig(), required_splits=("train",))
    facts = split_facts(dataset, "train")
    assert (facts.predicted_tokens, facts.unknown_tokens) == (9, 0)
    # The bits spell ", " and "!" with an escape and an end each. Further bits mark a space, one gap and two ends.
    line = 8 * (2 + 2) + 8 * (1 + 2) + 1 + PLAIN_GAP_BITS + 2 * PLAIN_END_BITS
    assert facts.restoration_bits == pytest.approx(3 * line)


def tokenizer_of(kind: str, splitting: str, literal: str | None) -> TextTokenizer:
    """Return a tokenizer with the vocabulary `a` and `,`."""
    config = TokenizerConfig.model_validate({"kind": kind, "splitting": splitting, "unknown_literal": literal})
    return trained_on("a ,", config)


@pytest.mark.parametrize(
    ("kind", "splitting", "literal", "mode"),
    [
        ("word", "whitespace", None, "stream"),
        ("word", "whitespace", "b", "sentence"),
        ("word", "punctuation", "b", "stream"),
        ("word", "textbook", None, "sentence"),
        ("word", "textbook", None, "stream"),
        ("char", "whitespace", None, "sentence"),
    ],
)
def test_the_probabilities_of_all_texts_sum_to_at_most_one(
    kind: str, splitting: str, literal: str | None, mode: str
) -> None:
    """The probabilities of all texts sum to at most one. They follow from the tokens and the restoration bits.

    The texts are all lines of up to six characters of a small alphabet, with a fixed distribution of tokens.
    """
    tokenizer = tokenizer_of(kind, splitting, literal)
    vocabulary = tokenizer.vocabulary_size - 2  # The tokens <pad> and <bos> are never predicted.
    probability = {EOS: 0.3, UNK: 0.25} | dict.fromkeys(range(4, 2 + vocabulary), 0.45 / (vocabulary - 2))
    assert sum(probability.values()) == pytest.approx(1.0)
    total = 0.0
    for length in range(7):
        for characters in itertools.product("ab, ", repeat=length):
            line = "".join(characters)
            ids = tokenizer.encode(line)
            dropped, unknown = mode == "sentence" and not ids, tokenizer.unknown_words(line)
            bits = tokenizer.restoration_bits(line, len(ids), ids.count(UNK), unknown, mode == "sentence")
            predicted = [] if dropped else [*ids, EOS]
            total += math.prod(probability[token] for token in predicted) * 2**-bits
    assert 0.15 < total <= 1.0


@pytest.mark.parametrize("splitting", ["whitespace", "punctuation"])
def test_indentation_is_not_free(splitting: str) -> None:
    tokenizer = tokenizer_of("word", splitting, None)
    costs = [tokenizer.restoration_bits(" " * indent + "a a", 2, 0, [], True) for indent in (0, 4, 12)]
    assert costs[1] - costs[0] == pytest.approx(8 * (4 + 2))
    assert costs[2] - costs[1] == pytest.approx(8 * 8)
    # The lines of the Penn Treebank have a space at both ends.
    both_ends = tokenizer.restoration_bits(" a a ", 2, 0, [], True)
    assert both_ends - costs[0] == pytest.approx(2 * (5 + math.log2(256 / 255)))


def test_a_pretrained_tokenizer_is_renumbered_and_otherwise_the_same(home: Home, tmp_path: Path) -> None:
    """A pretrained tokenizer gets new ids for its special tokens, and encodes text as before.

    The tokenizer is a byte-level BPE with different special tokens and ids.
    """
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer, theirs.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=["[S]", "[END]"], initial_alphabet=alphabet)
    theirs.train_from_iterator(["the cat sees the dog"] * 20, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=theirs, bos_token="[S]", eos_token="[END]")
    wrapped.save_pretrained(tmp_path / "theirs")

    record = train(home, tmp_path / "c", kind=f"pretrained:{tmp_path / 'theirs'}")
    ours = load_tokenizer(record.folder)
    assert ours.pieces(range(4)) == ["<pad>", "<unk>", "[S]", "[END]"]
    assert record.vocabulary_size == theirs.get_vocab_size() + 2  # The special tokens <pad> and <unk> are added.
    text = "the cat é <pad> [END] <unk>"
    expected = theirs_as_text(theirs, text)
    assert ours.pieces(ours.encode(text)) == expected
    assert ours.decode(ours.encode(text)) == text
    assert all(token_id > EOS for token_id in ours.encode(text))
    again = AutoTokenizer.from_pretrained(record.folder)
    assert again.encode(text, add_special_tokens=False) == ours.encode(text)


def theirs_as_text(theirs: Tokenizer, text: str) -> list[str]:
    theirs.encode_special_tokens = True
    return list(theirs.encode(text, add_special_tokens=False).tokens)


def test_a_missing_pretrained_tokenizer_is_an_error(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.kind: pretrained:.*nothing") as caught:
        train(home, tmp_path / "c", kind=f"pretrained:{tmp_path / 'nothing'}")
    assert len(str(caught.value).splitlines()) <= 3


def test_a_line_is_shown_in_coloured_pieces(home: Home, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(train(home, tmp_path / "c").folder)
    assert coloured(tokenizer, "a zz\x1b b") == (
        # The escape character in the text is shown as text.
        "\x1b[30;44ma\x1b[0m \x1b[30;41mzz\\x1b\x1b[0m \x1b[30;45mb\x1b[0m"
    )


def test_a_tokenizer_with_remote_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "strange"
    folder.mkdir()
    ran = tmp_path / "ran"
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')\nclass Strange: ...\n")
    settings = {"auto_map": {"AutoTokenizer": ["code.Strange", "code.Strange"]}, "tokenizer_class": "Strange"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"model_type": "strange", "auto_map": {"AutoConfig": "code.C"}}))
    asked: list[object] = []
    monkeypatch.setattr("builtins.input", lambda *question: asked.append(question) or "y")
    with pytest.raises(ModelError, match="AutoTokenizer cannot load this tokenizer"):
        load_pretrained(str(folder))
    assert asked == []
    assert not ran.exists()
