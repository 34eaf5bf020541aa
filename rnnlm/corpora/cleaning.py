"""What the configuration asks to be done to the text before it is stored."""

import re
import unicodedata
from collections.abc import Iterator

from rnnlm.config import CorpusConfig
from rnnlm.corpora.text_encoding import line_blocks, single_lines
from rnnlm.errors import CorpusError

DIGITS = re.compile(r"\d+")
SURROGATE = re.compile("[\ud800-\udfff]")
BEGIN = re.compile(r"\*\*\*\s*START OF\b")
END = re.compile(r"\*\*\*\s*END OF\b")


def cleaned(pieces: Iterator[str], config: CorpusConfig) -> Iterator[str]:
    """The pieces normalised, in lower case and with digits replaced, as configured.

    Done on whole lines: a line feed combines with nothing, so where the pieces were cut changes nothing.
    """
    if config.normalization == "none" and not config.lowercase and config.digits is None:
        return pieces
    return (clean(block, config) for block in line_blocks(pieces))


def clean(text: str, config: CorpusConfig) -> str:
    if config.normalization != "none":
        text = unicodedata.normalize(config.normalization, text)
    if config.lowercase:
        text = text.lower()
        if config.normalization != "none":  # lower case may decompose: İ becomes two characters
            text = unicodedata.normalize(config.normalization, text)
    if config.digits is not None:
        replacement = config.digits
        text = DIGITS.sub(lambda _: replacement, text)
    return text


def encoded(text: str, config: CorpusConfig, label: str) -> bytes:
    """UTF-8. Half a surrogate pair, which JSON can spell, is refused or replaced like undecodable bytes."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        if config.undecodable == "replace":
            return SURROGATE.sub("\ufffd", text).encode("utf-8")
        half = f"U+{ord(text[error.start]):04X}"
        raise CorpusError(
            f"{label}: holds {half}, half a surrogate pair, which is no character;\n"
            "mend it, or set corpus.undecodable=replace"
        ) from None


def without_gutenberg_frame(pieces: Iterator[str], label: str) -> Iterator[str]:
    """Project Gutenberg's own text cut off: what stands between its START and END lines.

    Looked for in each line's beginning alone, and nothing is yielded after END.
    """
    inside = False
    for line in single_lines(pieces):
        if inside and END.match(line):
            return
        if inside:
            yield line
        inside = inside or bool(BEGIN.match(line))
    missing = "END" if inside else "START"
    raise CorpusError(f"{label}: has no line that begins with *** {missing} OF; has Project Gutenberg changed it?")
