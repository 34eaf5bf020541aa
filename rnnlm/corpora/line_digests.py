"""The digest of each line of a text, and the decisions that depend on the digest.

The digest depends only on the content of the line. Hence a decision about a line stays the same if other lines are
inserted or removed. There are two decisions:

- `chooses` determines whether a held-out line is used for model selection (of a checkpoint, a temperature, the weights
  of a mixture) or is reserved for comparing models.
- `ends_block` determines whether a block ends with the line, in a text without paragraphs.
"""

import hashlib
import re
import string
import unicodedata
from typing import overload

import numpy as np

DIGEST_BYTES = 8
LINES_A_BLOCK = 8  # The mean number of lines in a block.
NO_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
NO_ASCII_LETTER_OR_DIGIT = bytes(set(range(128)) - set((string.ascii_letters + string.digits).encode()))


def line_digest(line: bytes) -> int:
    """Return the digest of a line of UTF-8 as an integer of 64 bits.

    The digest is computed from the letters and digits of the line, in one case and one Unicode form. Hence white space,
    punctuation and Unicode normalization do not change it. A line without letters and digits is hashed as it is.
    """
    if line.isascii():  # For ASCII, the same digest is computed many times faster.
        kept = line.lower().translate(None, NO_ASCII_LETTER_OR_DIGIT)
    else:
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", line.decode("utf-8", "replace")).casefold())
        kept = NO_LETTER_OR_DIGIT.sub("", text).encode()
    return int.from_bytes(hashlib.blake2b(kept or line.strip(), digest_size=DIGEST_BYTES).digest(), "big")


def line_digests(lines: list[bytes]) -> list[int]:
    """Return the digest of each line of a document. A blank line has the digest of the line before it."""
    digests: list[int] = []
    for line in lines:
        digests.append(line_digest(line) if line.strip() else digests[-1] if digests else 0)
    return digests


@overload
def chooses(digest: int) -> bool: ...
@overload
def chooses(digest: np.ndarray) -> np.ndarray: ...
def chooses(digest: int | np.ndarray) -> bool | np.ndarray:
    """Return True if the held-out line with this digest is used for model selection.

    All other held-out lines are reserved for comparing models. Each purpose gets about half of the lines. The decision
    is the same for all models of a corpus, so no model is ever selected on a line that is used for comparing models.
    """
    return digest & 1 == 0 if isinstance(digest, int) else digest & np.uint64(1) == 0


def ends_block(line: bytes) -> bool:
    """Return True if a block of lines ends with this line.

    On average, every LINES_A_BLOCK-th line ends a block. A blank line never ends one.
    """
    return bool(line.strip()) and (line_digest(line) >> 1) % LINES_A_BLOCK == 0
