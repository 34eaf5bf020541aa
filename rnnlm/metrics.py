"""The only definitions of perplexity, bits per byte, and the bits of an unknown word.

The module is copied into every registered model, so it imports only the standard library.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LARGEST_EXPONENT = 700.0  # The largest exponent of exp. A float64 overflows above 709. sql/ uses the same limit.
NATS_PER_BIT = math.log(2)
SPELLED_BYTE_BITS = 8  # The number of bits for a byte that is encoded without a language model.


@dataclass(frozen=True, kw_only=True)
class Score:
    """The loss of a text under a model.

    The perplexity depends only on the tokens. Bits per byte refer to the whole text. They include restoration_bits, the
    bits for everything that the tokens do not contain, such as unknown words and white space; see
    TextTokenizer.restoration_bits.
    """

    summed_nll_nats: float  # The sum of the negative log-likelihoods of the predicted tokens, in nats.
    tokens: int  # The number of predicted tokens.
    byte_count: int = 0  # The number of UTF-8 bytes, including line ends.
    unknown_tokens: int = 0  # The number of predicted tokens that stand for an unknown word.
    restoration_bits: float = 0.0

    @property
    def nll_nats_per_token(self) -> float:
        """The mean loss in nats per token. It is NaN if no token is predicted."""
        return self.summed_nll_nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """The perplexity, which is NaN if no token is predicted."""
        return perplexity(self.nll_nats_per_token)

    @property
    def total_nats(self) -> float:
        """The loss of the whole text in nats, which is summed_nll_nats + restoration_bits * ln(2)."""
        return self.summed_nll_nats + self.restoration_bits * NATS_PER_BIT

    @property
    def bits_per_byte(self) -> float:
        """The bits per byte, which are NaN for an empty text."""
        return self.total_nats / NATS_PER_BIT / self.byte_count if self.byte_count else math.nan

    @property
    def unknown_rate(self) -> float:
        """The fraction of the predicted tokens that stand for an unknown word, or NaN if no token is predicted."""
        return self.unknown_tokens / self.tokens if self.tokens else math.nan


def perplexity(nll_nats_per_token: float) -> float:
    """Return the perplexity, which is exp(mean negative log-likelihood) and at most exp(700), or NaN for NaN."""
    return math.exp(min(nll_nats_per_token, LARGEST_EXPONENT))


def spelled_bits(words: Sequence[str], *, with_ends: bool) -> int:
    """Return the number of bits that encode words outside the vocabulary.

    They are 8 bits for each UTF-8 byte and, if `with_ends` is true, 8 bits for the end of each word.
    """
    return SPELLED_BYTE_BITS * (utf8_bytes("".join(words)) + len(words) * with_ends)


def utf8_bytes(text: str) -> int:
    """Return the length of the text in UTF-8. An unpaired surrogate counts as three bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def finite_or_none(value: float) -> float | None:
    """Return the value, or None if it is not finite, because JSON and tables cannot represent NaN."""
    return value if math.isfinite(value) else None
