"""Text ↔ ids: learnt from the training split alone, special tokens never from text, the same after a reload."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rnnlm.config import CorpusConfig, TokenizerConfig
from rnnlm.corpora.sources import obtain_corpus
from rnnlm.errors import ModelError
from rnnlm.home import Home
from rnnlm.records import TokenizerRecord
from rnnlm.tokenizers.face import BOS, EOS, PAD, UNK, TextTokenizer, load_tokenizer
from rnnlm.tokenizers.subwords import train_bpe
from rnnlm.tokenizers.training import train_tokenizer

TRAIN = "b b b c c a a <unk> <eos>\nd\n"


def train(home: Home, folder: Path, **settings: object) -> TokenizerRecord:
    folder.mkdir(exist_ok=True)
    for split, text in (("train", TRAIN), ("valid", "z z z z z\n"), ("test", "y\n")):
        (folder / f"{split}.txt").write_text(text)
    source = CorpusConfig(source=str(folder))
    config = TokenizerConfig.model_validate(settings)
    return train_tokenizer(home, obtain_corpus(home, source), source, config)


def test_words_are_numbered_by_falling_count_then_spelling(home: Home, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(train(home, tmp_path / "c").folder)
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.pieces(range(8)) == ["<pad>", "<unk>", "<bos>", "<eos>", "b", "a", "c", "d"]
    assert tokenizer.vocabulary_size == 8  # neither z nor y: they are not in the training split
    assert tokenizer.encode("  d a\tq ") == [7, 5, UNK]


def test_minimum_count_and_size_bound_the_vocabulary(home: Home, tmp_path: Path) -> None:
    frequent = load_tokenizer(train(home, tmp_path / "c", minimum_count=2).folder)
    assert frequent.pieces(range(4, frequent.vocabulary_size)) == ["b", "a", "c"]
    text = " ".join(f"w{index:02d}" for index in range(50))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "text.txt").write_text(text)
    source = CorpusConfig(source=str(tmp_path / "one"), valid_share=0, test_share=0)
    record = train_tokenizer(home, obtain_corpus(home, source), source, TokenizerConfig(vocabulary_size=20))
    assert record.vocabulary_size == 20


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


def test_words_come_back_with_single_spaces(home: Home, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(train(home, tmp_path / "c").folder)
    assert tokenizer.decode([BOS, 4, UNK, 5, EOS, PAD]) == "b <unk> a"


def test_lines_are_encoded_as_one_by_one(home: Home, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(train(home, tmp_path / "c").folder)
    lines = ["a b", "", "q", "c"]
    assert tokenizer.encode_lines(lines) == [tokenizer.encode(line) for line in lines]


def test_an_unchanged_tokenizer_is_not_trained_again(home: Home, tmp_path: Path) -> None:
    first = train(home, tmp_path / "c")
    again = train(home, tmp_path / "c")
    assert (first.skipped, again.skipped, first.digest) == (False, True, again.digest)
    assert train(home, tmp_path / "c", minimum_count=3).digest != first.digest


BYTES = TextTokenizer(
    train_bpe(iter(["the cat sees"] * 9), TokenizerConfig(kind="bpe", vocabulary_size=270)), "bpe", None
)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_byte_level_gives_every_text_back(text: str) -> None:
    ids = BYTES.encode(text)
    assert BYTES.decode(ids) == text
    assert all(token_id > EOS for token_id in ids)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.sampled_from(["<pad>", "<eos>", "<bos>", "<unk>", " ", "cat", "é", "<"])).map("".join))
def test_byte_level_keeps_the_spelling_of_special_tokens_as_text(text: str) -> None:
    assert BYTES.decode(BYTES.encode(text)) == text


def test_byte_level_is_the_same_after_a_reload(home: Home, tmp_path: Path) -> None:
    folder = train(home, tmp_path / "c", kind="bpe", vocabulary_size=262).folder
    text = " the <eos> of  <pad> 日本"
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
    assert theirs.decode(ours.encode(text)) == text
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.bos_token_id, theirs.eos_token_id) == (
        0,
        1,
        2,
        3,
    )
    assert ours.unknown_words("anything") == []


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)
