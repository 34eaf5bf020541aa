"""Decode files to text with line feeds; errors say where the bytes are not text, and what they may be."""

import codecs
import io
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Literal, NamedTuple, Protocol

from rnnlm.errors import CorpusError

READ_AT_ONCE = 1 << 20
FILES_SHOWN = 5  # in a message
GUESSED_BYTES = 64 << 10  # that an encoding is guessed from, around the first undecodable byte
MOSTLY = 0.3  # share of a file's characters that are undecodable or NUL from which on it is no text
NUL_REPLACED = "contains NUL bytes; read with U+FFFD in their place"
SURROGATE = re.compile("[\ud800-\udfff]")
BYTE_ORDER_MARKS = {  # byte-order mark → encoding; a mark of UTF-32 begins with one of UTF-16
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
    return next((encoding for mark, encoding in BYTE_ORDER_MARKS.items() if head.startswith(mark)), configured)


def guess_encoding(data: bytes) -> str | None:
    """Guess the encoding with charset-normalizer, by Python's name, or None. cp1252, the most common, wins a tie."""
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


def unnoted(label: str, what: str) -> None:
    """Tell nobody."""


class Decoding(NamedTuple):
    """How bytes become text, what is done where that fails, and who is told of it."""

    encoding: str = "utf-8"
    undecodable: Literal["guess", "replace", "refuse"] = "refuse"
    note: Callable[[str, str], object] = unnoted  # (label of the file, what was done)


def text_pieces(stream: Readable, label: str, decoding: Decoding) -> Iterator[str]:
    """The stream's text in pieces of any length, with line feeds as line ends and without a byte-order mark.

    CorpusError, with the byte offset, if the bytes are not text in this encoding and are to be refused, or no text.
    """
    check_encoding(decoding.encoding)
    decoder: Decoder | None = None
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    begun, chunk = False, b"\n"
    while chunk:
        try:
            chunk = stream.read(READ_AT_ONCE)
        except OSError as error:
            raise unreadable(label, error) from error
        if decoder is None:
            decoder = Decoder(label, decoding, encoding_of(chunk[:4], decoding.encoding))
        text = line_ends.decode(decoder.decode(chunk), final=not chunk)
        if not begun and text:
            text, begun = text.removeprefix("\ufeff"), True  # byte-order mark
        if text:
            yield text


class Decoder:
    """Decodes a file chunk by chunk. From the first undecodable byte on it does as it is told to."""

    def __init__(self, label: str, decoding: Decoding, encoding: str) -> None:
        self.label, self.decoding, self.encoding = label, decoding, encoding
        self.decoder = codecs.getincrementaldecoder(encoding)("strict")
        self.offset = 0
        self.beyond_ascii = False

    def decode(self, chunk: bytes) -> str:
        waiting, state = self.decoder.getstate()  # waiting: bytes of a character split between chunks
        try:
            text = self.decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            text = self.recover(waiting, state, chunk, error)
        except UnicodeError as error:  # UTF-16 without a byte-order mark, for one
            text = self.guessed_from_start(chunk, f"is not {self.encoding} ({error})")
        if "\x00" in text:
            text = self.without_nul(text, chunk)
        self.offset += len(chunk)
        self.beyond_ascii = self.beyond_ascii or not text.isascii()
        return text

    def recover(self, waiting: bytes, state: int, chunk: bytes, error: UnicodeDecodeError) -> str:
        """The chunk's text, and from now on a decoder that does not fail. state: the decoder's, before the chunk."""
        data = waiting + chunk
        place = f"byte {self.offset - len(waiting) + error.start} is not {self.encoding}: {error.reason}"
        guess = guess_around(data, error.start, self.encoding)
        if self.decoding.undecodable == "refuse":
            raise EncodingError(self.label, self.encoding, place, guess)
        if self.decoding.undecodable == "guess":
            if guess and is_utf_8(self.encoding) and (self.beyond_ascii or not data[: error.start].isascii()):
                guess = None  # UTF-8 until now
            elif guess is None and mostly_undecodable(data, error.start, self.encoding):
                raise EncodingError(self.label, self.encoding, place, None)
            if guess:
                self.decoding.note(self.label, f"{place}; read as {guess}, by a guess")
                self.decoder = codecs.getincrementaldecoder(guess)("replace")
                return self.decoder.decode(data, final=not chunk)
        self.decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        self.decoder.setstate((waiting, state))
        try:
            text = self.decoder.decode(chunk, final=not chunk)
        except UnicodeError as missing_mark:
            return self.guessed_from_start(chunk, f"is not {self.encoding} ({missing_mark})")
        self.decoding.note(self.label, f"{place}; read with U+FFFD in its place")
        return text

    def guessed_from_start(self, chunk: bytes, problem: str) -> str:
        """The first chunk in an encoding that is guessed. EncodingError if there is none, or none is wanted."""
        guess = guess_around(chunk, 0, self.encoding)
        if self.decoding.undecodable != "guess" or guess is None or self.offset:
            raise EncodingError(self.label, self.encoding, problem, guess) from None
        self.decoding.note(self.label, f"{problem}; read as {guess}, by a guess")
        self.decoder = codecs.getincrementaldecoder(guess)("replace")
        return self.decoder.decode(chunk, final=not chunk)

    def without_nul(self, text: str, chunk: bytes) -> str:
        """U+FFFD for each NUL. If they are many the file is in another encoding, or no text."""
        mode = self.decoding.undecodable
        problem = "contains NUL bytes, so it is not text"
        if mode == "refuse":
            raise EncodingError(self.label, self.encoding, problem, guess_around(chunk, 0, self.encoding))
        if mode == "guess" and text.count("\x00") > MOSTLY * len(text):
            text = self.guessed_from_start(chunk, problem)
        else:
            self.decoding.note(self.label, NUL_REPLACED)
        return text.replace("\x00", "\ufffd")


def is_utf_8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def mostly_undecodable(data: bytes, offset: int, encoding: str) -> bool:
    """True for a picture, say, around the offset: no text in any encoding."""
    text = around(data, offset).decode(encoding, "replace")
    return text.count("\ufffd") > MOSTLY * len(text)


def around(data: bytes, offset: int) -> bytes:
    return data[max(0, offset - GUESSED_BYTES // 2) : offset + GUESSED_BYTES // 2]


def guess_around(data: bytes, offset: int, encoding: str) -> str | None:
    """guess_encoding around the offset; None if the bytes are UTF-8 with some errors, as asked for."""
    data = around(data, offset)
    if is_utf_8(encoding):
        text = data.decode("utf-8", "replace")
        errors = text.count("\ufffd")
        if sum(not character.isascii() for character in text) >= 2 * errors:
            return None
    return guess_encoding(data)


def unreadable(label: str, error: Exception) -> CorpusError:
    reason = getattr(error, "strerror", None) or error
    return CorpusError(f"{label[:200]}: cannot be read ({reason}); check its path and permissions")


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


def tidy_cell(text: str, label: str, decoding: Decoding) -> str:
    """A table's cell with line feeds as line ends, one of them at its end."""
    text = sound_cell(text, label, decoding).replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def sound_cell(text: str, label: str, decoding: Decoding) -> str:
    """A table's cell. NUL and half a surrogate pair, which JSON can hold, become U+FFFD unless they are refused."""
    if "\x00" in text:
        if decoding.undecodable == "refuse":
            raise CorpusError(f"{label}: contains NUL bytes; fix the text, or set corpus.undecodable=replace")
        decoding.note(label, NUL_REPLACED)
        text = text.replace("\x00", "\ufffd")
    if not text.isascii() and (half := SURROGATE.search(text)):
        found = f"contains U+{ord(half[0]):04X}, half a surrogate pair"
        if decoding.undecodable == "refuse":
            raise CorpusError(f"{label}: {found};\nfix the text, or set corpus.undecodable=replace")
        decoding.note(label, f"{found}; read with U+FFFD in its place")
        text = SURROGATE.sub("\ufffd", text)
    return text


def printable(text: str) -> str:
    """Untrusted text for a one-line message: at most 100 characters, none of them control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)[:100]
