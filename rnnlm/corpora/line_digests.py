"""A digest of each line of a text, and what it decides.

The digest is of the line's content alone, so a line keeps what was decided for it wherever other lines are inserted or
removed:

- whether a held-out line may choose between models (a checkpoint, a temperature, the shares of a mixture) or only
  judges them: see `chooses`;
- whether a block of lines ends with it, where no blank line divides a text into paragraphs: see `ends_block`.
"""

import hashlib
import re
import string
import unicodedata
from typing import overload

import numpy as np

DIGEST_BYTES = 8
LINES_A_BLOCK = 8  # on average
NO_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
NO_ASCII_LETTER_OR_DIGIT = bytes(set(range(128)) - set((string.ascii_letters + string.digits).encode()))


def line_digest(line: bytes) -> int:
    """Return the digest of a line of UTF-8, 64 bits.

    It is that of the line's letters and digits in one case and one Unicode form, so white space, punctuation and
    Unicode normalization do not change it. A line without letters and digits is hashed as it is.
    """
    if line.isascii():  # the same result, many times as fast
        kept = line.lower().translate(None, NO_ASCII_LETTER_OR_DIGIT)
    else:
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", line.decode("utf-8", "replace")).casefold())
        kept = NO_LETTER_OR_DIGIT.sub("", text).encode()
    return int.from_bytes(hashlib.blake2b(kept or line.strip(), digest_size=DIGEST_BYTES).digest(), "big")


def line_digests(lines: list[bytes]) -> list[int]:
    """Return the digest of each line of a document. A blank line has that of the line before it."""
    digests: list[int] = []
    for line in lines:
        digests.append(line_digest(line) if line.strip() else digests[-1] if digests else 0)
    return digests


@overload
def chooses(digest: int) -> bool: ...
@overload
def chooses(digest: np.ndarray) -> np.ndarray: ...
def chooses(digest: int | np.ndarray) -> bool | np.ndarray:
    """Return True if a held-out line with this digest may choose between models; else it only judges them.

    A fair coin, and the same one for all models of a corpus: what judges tonight has judged on every earlier night.
    """
    return digest & 1 == 0 if isinstance(digest, int) else digest & np.uint64(1) == 0


def ends_block(line: bytes) -> bool:
    """Return True if a block of lines ends with this line: on average every LINES_A_BLOCK-th does, no blank one."""
    return bool(line.strip()) and (line_digest(line) >> 1) % LINES_A_BLOCK == 0
