"""The digest of a line depends only on its content, not on its position or on cleaning."""

import unicodedata

import numpy as np
import pytest

from rnnlm.corpora.line_digests import chooses, ends_block, line_digest, line_digests

LINES = [f"line {number} of a text\n".encode() for number in range(4_000)]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("The cat sat.\n", "the  CAT, sat", True),
        ("café crème", unicodedata.normalize("NFD", "CAFÉ CRÈME"), True),
        ("Straße", "STRASSE", True),
        ("день 5 из 8387", "ДЕНЬ 5 ИЗ 8387", True),
        # Digits are part of the digest, because most lines of a log differ only in digits.
        ("day 5 of 8387", "day 6 of 8387", False),
        ("}", "{", False),
        ("  }\n", "}", True),
        ("猫", "犬", False),
        ("", "", True),
    ],
)
def test_cleaning_does_not_change_the_digest_of_a_line(one: str, other: str, alike: bool) -> None:
    assert (line_digest(one.encode()) == line_digest(other.encode())) == alike


def test_bytes_that_are_no_text_have_a_digest() -> None:
    assert line_digest(b"\xff\xfe\x00abc") != line_digest(b"\xff\xfd\x00abd")


def test_half_of_the_lines_choose_and_every_eighth_ends_a_block_independently() -> None:
    digests = np.array(line_digests(LINES), np.uint64)
    chosen = chooses(digests)
    assert chosen.tolist() == [chooses(int(digest)) for digest in digests]
    ends = np.array([ends_block(line) for line in LINES])
    assert chosen.mean() == pytest.approx(0.5, abs=0.03)
    assert ends.mean() == pytest.approx(1 / 8, abs=0.02)
    assert chosen[ends].mean() == pytest.approx(0.5, abs=0.08)


def test_a_blank_line_goes_with_the_line_before_it() -> None:
    lines = [b"", b"one", b" ", b"two", b""]
    digests = line_digests(lines)
    assert digests == [0, line_digest(b"one"), line_digest(b"one"), line_digest(b"two"), line_digest(b"two")]
    assert not any(map(ends_block, (b"", b" \n", b"\t")))
