"""Perplexity, bits per byte and what an unknown word costs: the one definition of each.

Needs only the standard library: this module travels with every registered model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LARGEST_EXPONENT = 700.0  # exp overflows a float64 above 709; sql/ has the same limit
NATS_PER_BIT = math.log(2)
SPELLED_BYTE_BITS = 8  # a byte that is written out without any model


@dataclass(frozen=True, kw_only=True)
class Score:
    """The cost of a text under a model.

    The tokens alone give the perplexity. Bits per byte are of the whole text: they include restoration_bits, the price
    of everything that the tokens do not say (unknown words, white space; see TextTokenizer.restoration_bits).
    """

    summed_nll_nats: float  # of the predicted tokens; minus this is their log-probability
    tokens: int  # predicted
    byte_count: int = 0  # UTF-8, line ends included
    unknown_tokens: int = 0  # words that the vocabulary cannot spell
    restoration_bits: float = 0.0

    @property
    def nll_nats_per_token(self) -> float:
        """NaN if no token is predicted."""
        return self.summed_nll_nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """NaN if no token is predicted."""
        return perplexity(self.nll_nats_per_token)

    @property
    def total_nats(self) -> float:
        """Cost of the whole text: its tokens, and what restores it from them."""
        return self.summed_nll_nats + self.restoration_bits * NATS_PER_BIT

    @property
    def bits_per_byte(self) -> float:
        """NaN for an empty text."""
        return self.total_nats / NATS_PER_BIT / self.byte_count if self.byte_count else math.nan

    @property
    def unknown_rate(self) -> float:
        """Share of the predicted tokens that stand for an unknown word; NaN if no token is predicted."""
        return self.unknown_tokens / self.tokens if self.tokens else math.nan


def perplexity(nll_nats_per_token: float) -> float:
    """Return exp of the mean negative log-likelihood, at most exp(700). NaN stays NaN."""
    return math.exp(min(nll_nats_per_token, LARGEST_EXPONENT))


def spelled_bits(words: Sequence[str], *, with_ends: bool) -> int:
    """Return the price of words that the vocabulary cannot spell.

    8 bits for each UTF-8 byte and, with_ends, each word's end.
    """
    return SPELLED_BYTE_BITS * (utf8_bytes("".join(words)) + len(words) * with_ends)


def utf8_bytes(text: str) -> int:
    """Return the length in UTF-8; half a surrogate pair counts as three bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def finite_or_none(value: float) -> float | None:
    """Return the value, or None if it is not finite: JSON and tables have no NaN."""
    return value if math.isfinite(value) else None
