"""Decode files to text with line feeds; errors say where the bytes are not text."""

import codecs
import io
from collections.abc import Iterator
from typing import Literal, Protocol

from rnnlm.errors import CorpusError

READ_AT_ONCE = 1 << 20


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int = -1, /) -> bytes: ...


def check_encoding(encoding: str) -> None:
    """CorpusError if Python has no text encoding of this name."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        codecs.getincrementaldecoder(encoding)("strict")
    except (LookupError, ValueError):
        raise CorpusError(
            f"corpus.encoding: {encoding!r} is not a text encoding of Python; try utf-8 or latin-1"
        ) from None


def text_pieces(
    stream: Readable, label: str, encoding: str, undecodable: Literal["refuse", "replace"] = "refuse"
) -> Iterator[str]:
    """The stream's text in pieces of any length, with line feeds as line ends and without a byte-order mark.

    CorpusError, with the byte offset, if the bytes are not text in this encoding.
    """
    check_encoding(encoding)
    decoder = codecs.getincrementaldecoder(encoding)("strict" if undecodable == "refuse" else "replace")
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    offset, begun, chunk = 0, False, b"\n"
    while chunk:
        waiting = len(decoder.getstate()[0])  # bytes of a character split between chunks
        try:
            chunk = stream.read(READ_AT_ONCE)
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{label}: byte {offset - waiting + error.start} is not {encoding}: {error.reason};\n"
                "set the encoding, for example --set corpus.encoding=latin-1, or set corpus.undecodable=replace"
            ) from None
        except UnicodeError as error:  # UTF-16 without a byte-order mark, for one
            raise CorpusError(f"{label}: is not {encoding} ({error}); set corpus.encoding") from None
        except OSError as error:
            raise unreadable(label, error) from error
        text = line_ends.decode(text, final=not chunk)
        if not begun and text:
            text, begun = text.removeprefix("\ufeff"), True  # byte-order mark
        refuse_nul(text, label)
        offset += len(chunk)
        if text:
            yield text


def unreadable(label: str, error: Exception) -> CorpusError:
    reason = getattr(error, "strerror", None) or error
    return CorpusError(f"{label[:200]}: cannot be read ({reason}); check its path and permissions")


def refuse_nul(text: str, label: str) -> None:
    if "\x00" in text:
        raise CorpusError(f"{label}: contains NUL bytes, so it is not text; give a text file, or set corpus.encoding")


def single_lines(pieces: Iterator[str]) -> Iterator[str]:
    """The lines, with their line feeds, of a text in pieces."""
    for block in line_blocks(pieces):
        lines = block.split("\n")
        yield from (line + "\n" for line in lines[:-1])
        if lines[-1]:
            yield lines[-1]


def line_blocks(pieces: Iterator[str]) -> Iterator[str]:
    """The text in pieces that end at line ends. A line longer than a piece is held in memory."""
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
    """A table's cell with line feeds as line ends, one of them at its end."""
    refuse_nul(text, label)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def printable(text: str) -> str:
    """Untrusted text for a one-line message: at most 100 characters, none of them control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)[:100]
