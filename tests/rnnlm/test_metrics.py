"""Perplexity, bits per byte and the bits of unknown words agree with a calculation by hand."""

import math
import re

import pytest

from rnnlm.metrics import Score, finite_or_none, perplexity, spelled_bits
from rnnlm.storage.package_files import package_file


def test_figures_of_a_text() -> None:
    # Four tokens with the loss ln 2 have 4 bits. With 12 restoration bits, these are 16 bits for 8 bytes.
    score = Score(summed_nll_nats=4 * math.log(2), tokens=4, byte_count=8, unknown_tokens=1, restoration_bits=12.0)
    assert score.nll_nats_per_token == pytest.approx(math.log(2))
    assert score.perplexity == pytest.approx(2.0)
    assert score.total_nats == pytest.approx(16 * math.log(2))
    assert score.bits_per_byte == pytest.approx(2.0)
    assert score.unknown_rate == 0.25


def test_a_text_without_tokens_or_bytes_has_no_figures() -> None:
    empty = Score(summed_nll_nats=0.0, tokens=0)
    assert math.isnan(empty.perplexity)
    assert math.isnan(empty.bits_per_byte)
    assert math.isnan(empty.unknown_rate)
    assert finite_or_none(empty.perplexity) is None
    assert finite_or_none(1.5) == 1.5


def test_perplexity_never_overflows_and_keeps_nan() -> None:
    assert perplexity(1e6) == perplexity(math.inf) == math.exp(700)
    assert perplexity(0.0) == 1.0
    assert math.isnan(perplexity(math.nan))


def test_an_unknown_word_costs_eight_bits_a_byte_and_its_end() -> None:
    assert spelled_bits(["dé"], with_ends=True) == 8 * (3 + 1)
    assert spelled_bits(["é"], with_ends=False) == 16
    assert spelled_bits([], with_ends=True) == 0


def test_every_perplexity_in_sql_has_the_limit_of_python() -> None:
    found = [
        expression
        for path in sorted(package_file("sql").rglob("*.sql"))
        for expression in re.findall(r"exp\(.*(?= as perplexity)", path.read_text(encoding="utf-8"))
    ]
    assert len(found) == 5
    assert all(expression.startswith("exp(least(700, ") for expression in found)
