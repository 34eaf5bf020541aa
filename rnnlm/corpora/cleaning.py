"""Cleaning of text before it is stored, as the configuration specifies."""

import re
import unicodedata
from collections.abc import Iterator

from rnnlm.config import CorpusConfig
from rnnlm.corpora.text_encoding import line_blocks, single_lines
from rnnlm.errors import CorpusError

DIGITS = re.compile(r"\d+")
BEGIN = re.compile(r"\*\*\*\s*START OF\b")
END = re.compile(r"\*\*\*\s*END OF\b")


def cleaned(pieces: Iterator[str], config: CorpusConfig) -> Iterator[str]:
    """Yield the pieces of a text with normalised Unicode, in lower case and with replaced digits, as configured.

    Whole lines are cleaned at a time. No character combines with a line feed, so the result does not depend on where
    the pieces begin and end.
    """
    if config.normalization == "none" and not config.lowercase and config.digits is None:
        return pieces
    return (clean(block, config) for block in line_blocks(pieces))


def clean(text: str, config: CorpusConfig) -> str:
    if config.normalization != "none":
        text = unicodedata.normalize(config.normalization, text)
    if config.lowercase:
        text = text.lower()
        # The text is normalised again, because lower case may decompose a character: İ becomes two characters.
        if config.normalization != "none":
            text = unicodedata.normalize(config.normalization, text)
    if config.digits is not None:
        replacement = config.digits
        text = DIGITS.sub(lambda _: replacement, text)
    return text


def without_gutenberg_frame(pieces: Iterator[str], label: str) -> Iterator[str]:
    """Yield the text between the START and END lines of Project Gutenberg."""
    inside = False
    for line in single_lines(pieces):
        if inside and END.match(line):
            return
        if inside:
            yield line
        inside = inside or bool(BEGIN.match(line))
    missing = "END" if inside else "START"
    raise CorpusError(
        f"{label}: expected a line that begins with *** {missing} OF; Project Gutenberg may have changed its format"
    )
