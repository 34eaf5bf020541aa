"""A stranger's bytes become our text: decoded, line feeds, nothing binary; or the error says where."""

import codecs
import io
from collections.abc import Iterator
from typing import Literal, Protocol

from rnnlm.errors import CorpusError

READ_AT_ONCE = 1 << 20


class Readable(Protocol):
    """What can be read in pieces."""

    def read(self, size: int = -1, /) -> bytes: ...


def check_encoding(encoding: str) -> None:
    """CorpusError for a name that is no text encoding of Python's."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        codecs.getincrementaldecoder(encoding)("strict")
    except (LookupError, ValueError):
        raise CorpusError(
            f"corpus.encoding: {encoding!r} is no text encoding that Python knows; try utf-8 or latin-1"
        ) from None


def text_pieces(
    stream: Readable, label: str, encoding: str, undecodable: Literal["refuse", "replace"] = "refuse"
) -> Iterator[str]:
    """The stream's text in pieces of any length, with line feeds for line ends and without a byte-order mark.

    CorpusError names `label` and the byte offset of what is no text in that encoding.
    """
    check_encoding(encoding)
    decoder = codecs.getincrementaldecoder(encoding)("strict" if undecodable == "refuse" else "replace")
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    offset, begun, chunk = 0, False, b"\n"
    while chunk:
        waiting = len(decoder.getstate()[0])  # bytes of a character that the last chunk cut
        try:
            chunk = stream.read(READ_AT_ONCE)
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{label}: byte {offset - waiting + error.start} is not {encoding}: {error.reason};\n"
                "name the file's encoding, such as --set corpus.encoding=latin-1, or set corpus.undecodable=replace"
            ) from None
        except UnicodeError as error:  # UTF-16 without a byte-order mark, for one
            raise CorpusError(f"{label}: is not {encoding} ({error}); name the file's encoding") from None
        except OSError as error:
            raise CorpusError(
                f"{label}: cannot be read ({error.strerror or error}); check its path and permissions"
            ) from error
        text = line_ends.decode(text, final=not chunk)
        if not begun and text:
            text, begun = text.removeprefix("\ufeff"), True  # a byte-order mark is no text
        refuse_nul(text, label)
        offset += len(chunk)
        if text:
            yield text


def refuse_nul(text: str, label: str) -> None:
    if "\x00" in text:
        raise CorpusError(f"{label}: holds NUL bytes, so it is no text; give a text file, or its corpus.encoding")


def single_lines(pieces: Iterator[str]) -> Iterator[str]:
    """Single lines with their ends, whatever the pieces were cut at."""
    for block in line_blocks(pieces):
        lines = block.split("\n")
        yield from (line + "\n" for line in lines[:-1])
        if lines[-1]:
            yield lines[-1]


def line_blocks(pieces: Iterator[str]) -> Iterator[str]:
    """The pieces cut anew, at line ends only. A line longer than a piece is held whole."""
    held: list[str] = []
    for piece in pieces:
        end = piece.rfind("\n") + 1
        if end:
            yield "".join([*held, piece[:end]])
            held = []
        if end < len(piece):
            held.append(piece[end:])
    if held:
        yield "".join(held)


def tidy_cell(text: str, label: str) -> str:
    """A table's cell as lines of text: line feeds only, one at its end."""
    refuse_nul(text, label)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def printable(text: str) -> str:
    """A stranger's text made fit for one line of a message."""
    return "".join(character if character.isprintable() else "?" for character in text)[:100]
