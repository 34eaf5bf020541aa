"""Decode files to text with line feeds; errors say where the bytes are not text, and what they may be."""

import codecs
import io
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal, Protocol

from rnnlm.errors import CorpusError

READ_AT_ONCE = 1 << 20
FILES_SHOWN = 5  # in a message
GUESSED_BYTES = 64 << 10  # that an encoding is guessed from, around the first undecodable byte
MARKS = {  # byte-order mark → encoding; a mark of UTF-32 begins with one of UTF-16
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class EncodingError(CorpusError):
    """The bytes of one file are not text in the encoding."""

    def __init__(self, label: str, encoding: str, place: str, guess: str | None) -> None:
        self.label, self.encoding, self.place, self.guess = label, encoding, place, guess
        advice = f"corpus.encoding={guess} (a guess from the bytes)" if guess else "corpus.encoding to its own"
        super().__init__(f"{label}: {place};\nset {advice}, or set corpus.undecodable=replace")


def encoding_errors(source: str, errors: list[EncodingError], file_count: int) -> CorpusError:
    """One error for all files of a source that are not text in the encoding."""
    if len(errors) == 1:
        return errors[0]
    shown = [f"{PurePath(error.label).name[-40:]} ({error.guess or 'no guess'})" for error in errors[:FILES_SHOWN]]
    more = f" and {len(errors) - FILES_SHOWN:,} more" if len(errors) > FILES_SHOWN else ""
    guesses = {error.guess for error in errors}
    common = guesses.pop() if len(guesses) == 1 else None
    advice = f"set corpus.encoding={common} (a guess)" if common else "convert them (guesses stand beside them)"
    return CorpusError(
        f"{source}: {len(errors):,} of {file_count:,} files are not {errors[0].encoding}; rnnlm inspect lists them:\n"
        f"{', '.join(shown)}{more};\n"
        f"{advice}, or set corpus.undecodable=replace"
    )


def encoding_of(head: bytes, configured: str) -> str:
    """The encoding of the byte-order mark, else the configured one."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), configured)


def guess_encoding(data: bytes) -> str | None:
    """What charset-normalizer takes the bytes for, by Python's name, or None. Of equals, cp1252 is the most common."""
    from charset_normalizer import from_bytes

    matches = from_bytes(data)
    best = matches.best()
    if best is None:
        return None
    equals = [match for match in matches if (match.chaos, match.coherence) == (best.chaos, best.coherence)]
    if any("cp1252" in match.could_be_from_charset for match in equals):
        return "cp1252"
    return best.encoding if best.encoding not in ("ascii", "utf_8") else None


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
    stream: Readable,
    label: str,
    encoding: str,
    undecodable: Literal["refuse", "replace"] = "refuse",
    *,
    replace_nul: bool = False,
) -> Iterator[str]:
    """The stream's text in pieces of any length, with line feeds as line ends and without a byte-order mark.

    CorpusError, with the byte offset, if the bytes are not text in this encoding.
    """
    check_encoding(encoding)
    errors = "strict" if undecodable == "refuse" else "replace"
    decoder: codecs.IncrementalDecoder | None = None
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    offset, begun, chunk = 0, False, b"\n"
    while chunk:
        waiting = decoder.getstate()[0] if decoder else b""  # bytes of a character split between chunks
        try:
            chunk = stream.read(READ_AT_ONCE)
            if decoder is None:
                encoding = encoding_of(chunk[:4], encoding)
                decoder = codecs.getincrementaldecoder(encoding)(errors)
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            place = f"byte {offset - len(waiting) + error.start} is not {encoding}: {error.reason}"
            raise EncodingError(label, encoding, place, guess_around(waiting + chunk, error.start, encoding)) from None
        except UnicodeError as error:  # UTF-16 without a byte-order mark, for one
            raise EncodingError(
                label, encoding, f"is not {encoding} ({error})", guess_around(chunk, 0, encoding)
            ) from None
        except OSError as error:
            raise unreadable(label, error) from error
        text = line_ends.decode(text, final=not chunk)
        if not begun and text:
            text, begun = text.removeprefix("\ufeff"), True  # byte-order mark
        if replace_nul:
            text = text.replace("\x00", "\ufffd")
        if "\x00" in text:
            raise EncodingError(
                label, encoding, "contains NUL bytes, so it is not text", guess_around(chunk, 0, encoding)
            )
        offset += len(chunk)
        if text:
            yield text


def guess_around(data: bytes, offset: int, encoding: str) -> str | None:
    """guess_encoding around the offset; None if the bytes are UTF-8 with some errors, as asked for."""
    data = data[max(0, offset - GUESSED_BYTES // 2) : offset + GUESSED_BYTES // 2]
    if codecs.lookup(encoding).name == "utf-8":
        text = data.decode("utf-8", "replace")
        errors = text.count("\ufffd")
        if sum(not character.isascii() for character in text) > 2 * errors:
            return None
    return guess_encoding(data)


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
