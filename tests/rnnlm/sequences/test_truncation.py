"""Lines are truncated after context_length tokens. Bits per byte nevertheless include the rest of each line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rnnlm.config import SequencesConfig
from rnnlm.config.presets import build_config
from rnnlm.errors import ConfigError
from rnnlm.evaluation.baselines import split_facts
from rnnlm.sequences.dataset_reader import training_counts
from rnnlm.sequences.segmentation import encoded_lines
from rnnlm.sequences.truncation import beginnings, first_rows
from rnnlm.storage.home import Home
from rnnlm.tokenizers.text_tokenizer import PLAIN_END_BITS, PLAIN_GAP_BITS, SPECIAL_TOKENS, TextTokenizer
from tests.rnnlm.sequences.test_dataset_writer import rows, store
from tests.rnnlm.sequences.test_segmentation import lists

WORD_BITS = PLAIN_GAP_BITS  # The bits of each gap between two words.


@pytest.fixture(scope="module")
def characters() -> TextTokenizer:
    vocabulary = {piece: index for index, piece in enumerate((*SPECIAL_TOKENS, *"abcdé "))}
    return TextTokenizer(Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")), "char")


@pytest.fixture(scope="module")
def byte_pieces() -> TextTokenizer:
    """Return a tokenizer whose tokens are UTF-8 bytes, so that é consists of two tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate((*SPECIAL_TOKENS, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return TextTokenizer(tokenizer, "bpe")


@pytest.mark.long
def test_the_rest_of_a_line_costs_eight_bits_a_byte(home: Home, tmp_path: Path) -> None:
    cut = split_facts(store(home, tmp_path / "c", context_length=4, long_lines="truncate"), "train")
    assert (cut.byte_count, cut.predicted_tokens) == (15, 7)
    rest = 8 * len(" a\n")  # The bits spell the rest of the first line, which is ` a` and a line feed.
    blank = 8 * 2  # The blank line needs an escape code and an end.
    # `a b a b` and `a c` have 3 + 1 gaps between words, and 2 ends each.
    words = (3 + 1) * WORD_BITS + 2 * 2 * PLAIN_END_BITS
    assert cut.restoration_bits == pytest.approx(rest + blank + words)


@pytest.mark.long
def test_an_unknown_word_that_is_cut_off_is_not_counted_as_one(home: Home, tmp_path: Path) -> None:
    # The test split consists of the line b zz a.
    facts = split_facts(store(home, tmp_path / "c", context_length=1, long_lines="truncate"), "test")
    assert (facts.predicted_tokens, facts.unknown_tokens) == (1, 0)
    assert facts.restoration_bits == pytest.approx(8 * len(" zz a\n") + 2 * PLAIN_END_BITS)
    facts = split_facts(store(home, tmp_path / "c", context_length=2, long_lines="truncate"), "test")
    assert (facts.predicted_tokens, facts.unknown_tokens) == (2, 1)


def test_a_line_of_context_length_tokens_loses_only_its_end(characters: TextTokenizer) -> None:
    texts = ["abc", "abcd", "ab"]
    lines = encoded_lines(characters, texts)
    kept = beginnings(characters, texts, lines, 3)
    assert kept.texts == ["abc", "abc", "ab"]
    assert kept.rest_bits.tolist() == [8.0, 16.0, 0.0]
    assert lists(first_rows(lines, 3)) == [[2, 4, 5, 6], [2, 4, 5, 6], [2, 4, 5, 3]]


def test_a_character_cut_in_two_is_spelled_out(byte_pieces: TextTokenizer) -> None:
    texts = ["aéb"]  # The text has four bytes, because é has two. Therefore it has four tokens.
    lines = encoded_lines(byte_pieces, texts)
    assert lines.lengths.tolist() == [4]
    for length, text, rest in ((1, "a", "éb\n"), (2, "a", "éb\n"), (3, "aé", "b\n"), (4, "aéb", "\n")):
        kept = beginnings(byte_pieces, texts, lines, length)
        assert (kept.texts, kept.rest_bits.tolist()) == ([text], [8.0 * len(rest.encode())])


@given(st.lists(st.text("abcdé ", max_size=12), max_size=6), st.integers(1, 6))
def test_beginning_and_rest_make_up_the_line(
    characters: TextTokenizer, byte_pieces: TextTokenizer, texts: list[str], length: int
) -> None:
    for tokenizer in (characters, byte_pieces):
        lines = encoded_lines(tokenizer, texts)
        kept = beginnings(tokenizer, texts, lines, length)
        whole = lines.lengths + 1 <= length
        spelled = [
            len(text.encode()) - len(beginning.encode()) + 1 for text, beginning in zip(texts, kept.texts, strict=True)
        ]
        assert all(text.startswith(beginning) for text, beginning in zip(texts, kept.texts, strict=True))
        assert kept.rest_bits.tolist() == np.where(whole, 0, 8 * np.array(spelled, float)).tolist()
        for beginning, ids in zip(kept.texts, lists(kept.lines), strict=True):
            restored = tokenizer.encode(beginning)
            # The tokens restore at least all characters that are not spelled out.
            assert ids[: len(restored)] == restored


@pytest.mark.long
def test_other_settings_make_another_dataset_and_the_default_the_same_as_before(home: Home, tmp_path: Path) -> None:
    before = store(home, tmp_path / "c", context_length=4)
    assert store(home, tmp_path / "c", context_length=4, long_lines="continue").skipped
    cut = store(home, tmp_path / "c", context_length=4, long_lines="truncate")
    assert cut.dataset_id != before.dataset_id
    assert (before.scored_as_text, cut.scored_as_text) == (True, False)
    assert not store(home, tmp_path / "c", mode="stream").scored_as_text


def test_a_running_text_has_no_long_lines() -> None:
    with pytest.raises(ConfigError, match=r"long_lines=truncate needs mode=sentence"):
        build_config(overrides=["sequences.mode=stream", "sequences.long_lines=truncate"])
    assert SequencesConfig(mode="stream").long_lines == "continue"


@pytest.mark.long
def test_only_the_first_row_of_a_long_sentence_is_stored(home: Home, tmp_path: Path) -> None:
    """Only the first row of each line is stored if long lines are truncated.

    The training lines are `a b a b a`, a blank line and `a c`.
    """
    dataset = store(home, tmp_path / "c", context_length=4, long_lines="truncate")
    assert rows(dataset, "token_ids") == [[2, 4, 5, 4, 5], [2, 4, 6, 3]]
    assert dataset.predicted_tokens == {"train": 7, "valid": 3, "test": 4}
    assert list(training_counts(dataset)) == [0, 0, 0, 1, 3, 2, 1]
