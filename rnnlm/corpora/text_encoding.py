"""Decoding of files to text with line feeds as line ends.

An error reports where the undecodable bytes are, and the probable encoding.
"""

import codecs
import io
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Literal, NamedTuple, Protocol

from rnnlm.corpora.encoding_guess import language_encoding, rivals
from rnnlm.corpora.printable_names import printable, shortened, unreadable
from rnnlm.errors import CorpusError

READ_AT_ONCE = 1 << 20
GUESSED_BYTES = 64 << 10  # The number of bytes around the first undecodable byte from which the encoding is guessed.
WORDS_SHOWN = 3  # The number of words that are shown in a message about a guessed encoding.
MOSTLY = 0.3  # The fraction of undecodable or NUL characters above which a file is not text.
NUL_REPLACED = "contains NUL bytes, which are read as U+FFFD"
SURROGATE = re.compile("[\ud800-\udfff]")
# The mark of UTF-32 is tested before that of UTF-16, because both begin with the same bytes.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class EncodingError(CorpusError):
    """An error which means that a file is not text in the configured encoding."""

    def __init__(self, label: str, encoding: str, place: str, guess: str | None) -> None:
        self.label, self.encoding, self.place, self.guess = label, encoding, place, guess
        advice = (
            f"corpus.encoding={guess} (a guess from the bytes)"
            if guess
            else "corpus.encoding to the encoding of the file"
        )
        super().__init__(f"{label}: {place};\nset {advice}, or set corpus.undecodable=replace")


def encoding_errors(source: str, errors: list[EncodingError], file_count: int) -> CorpusError:
    """Return one error for all files of a source that are not text in the configured encoding."""
    if len(errors) == 1:
        return errors[0]
    names = shortened(f"{PurePath(error.label).name[-40:]} ({error.guess or 'no guess'})" for error in errors)
    guesses = {error.guess or "" for error in errors}
    advice = "convert the files to UTF-8 (each name is followed by a guess of its encoding)"
    if len(guesses) == 1 and "" not in guesses:
        advice = f"set corpus.encoding={guesses.pop()} (a guess)"
    return CorpusError(
        f"{source}: {len(errors):,} of {file_count:,} files are not {errors[0].encoding}:\n"
        f"{names};\n"
        f"{advice}, or set corpus.undecodable=replace"
    )


def encoding_of(head: bytes, configured: str) -> str:
    """Return the encoding that a byte-order mark indicates, or the configured encoding if there is no mark."""
    return next((encoding for mark, encoding in BYTE_ORDER_MARKS.items() if head.startswith(mark)), configured)


def guess_encoding(data: bytes, expected: str) -> str | None:
    """Return the probable encoding of the data, by its name in Python.

    Return None if no encoding fits, or if UTF-8 is expected and the bytes are UTF-8 with a few errors.
    """
    if is_utf_8(expected):
        text = data.decode("utf-8", "replace")
        if sum(not character.isascii() for character in text) >= 2 * text.count("\ufffd"):
            return None
    return wide_encoding(data) if b"\x00" in data else language_encoding(data)


def wide_encoding(data: bytes) -> str | None:
    """Return the encoding with two or four bytes per character in which the text is mostly ASCII, or None."""
    for name in ("utf_16_le", "utf_16_be", "utf_32_le", "utf_32_be"):
        text = data[: len(data) // 4 * 4].decode(name, "replace")
        if sum("\t" <= character <= "~" for character in text) > len(text) / 2:
            return name
    return None


def guess_told(data: bytes, encoding: str) -> str:
    """Return a message about the guessed encoding, with three decoded words that would reveal a wrong guess.

    The message of an uncertain guess names another encoding in which the text would be about as probable.
    """
    words = dict.fromkeys(word for word in re.findall(r"\w+", data.decode(encoding, "replace")) if not word.isascii())
    shown = ", ".join(list(words)[:WORDS_SHOWN])
    told = f"read as {encoding}, by a guess{f': {printable(shown)}' if shown else ''}"
    other = next(iter(rivals(data[:GUESSED_BYTES], encoding)), None)
    return f"{told}; it may be {other}, which corpus.encoding={other} sets" if other else told


def is_utf_8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int = -1, /) -> bytes: ...


def check_encoding(encoding: str) -> None:
    """Raise CorpusError if Python has no text encoding of this name."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        codecs.getincrementaldecoder(encoding)("strict").decode(b"")
    except (LookupError, ValueError):
        raise CorpusError(
            f"corpus.encoding: {encoding!r} is not a text encoding of Python; try utf-8 or latin-1"
        ) from None


class Decoding(NamedTuple):
    """The encoding of bytes, and the treatment of bytes that cannot be decoded."""

    encoding: str = "utf-8"
    undecodable: Literal["guess", "replace", "refuse"] = "refuse"
    # A function that records a note about the file; see ReadingReport.note.
    note: Callable[..., object] = lambda label, what, about="": None
    # If true, a file is treated as text if its first chunk is text. In the rest of the file, undecodable bytes are
    # replaced.
    to_the_end: bool = False


def text_pieces(stream: Readable, label: str, decoding: Decoding) -> Iterator[str]:
    """Yield the stream's text in pieces of any length, with line feeds as line ends and without a byte-order mark.

    Raise CorpusError, with the byte offset, if the bytes are not text, or if corpus.undecodable refuses undecodable
    bytes.
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
            text, begun = text.removeprefix("\ufeff"), True  # The byte-order mark is not part of the text.
        if text:
            yield sound_text(text, label, decoding)


def decoded_beginning(beginning: bytes, label: str, decoding: Decoding) -> tuple[str, str]:
    """Return the encoding of a file's first bytes, and their text with line feeds as line ends.

    The encoding is the one that a byte-order mark indicates, the configured one, or a guess. Raise EncodingError if the
    bytes are not text.
    """
    check_encoding(decoding.encoding)
    decoder = Decoder(label, decoding, encoding_of(beginning[:4], decoding.encoding))
    text = decoder.decode(beginning) if beginning else ""
    return decoder.encoding, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


class Decoder:
    """A decoder that decodes a file chunk by chunk and treats undecodable bytes as corpus.undecodable specifies."""

    def __init__(self, label: str, decoding: Decoding, encoding: str) -> None:
        self.label, self.decoding, self.encoding = label, decoding, encoding
        self.decoder = codecs.getincrementaldecoder(encoding)("strict")
        self.offset = 0
        self.ascii_until_now = True

    def decode(self, chunk: bytes) -> str:
        """Return the text of the next chunk. An empty chunk is the last one."""
        state = self.decoder.getstate()
        try:
            text = self.decoder.decode(chunk, final=not chunk)
        except UnicodeError as error:
            self.decoder.setstate(state)
            text = self.recovered(chunk, state[0], error)
        if "\x00" in text:
            text = self.without_nul(text, chunk)
        self.offset += len(chunk)
        self.ascii_until_now = self.ascii_until_now and text.isascii()
        return text

    def recovered(self, chunk: bytes, waiting: bytes, error: UnicodeError) -> str:
        """Return the text of a chunk with an undecodable byte.

        From this chunk on, undecodable bytes are replaced instead of raising an error. `waiting` contains the bytes of
        an incomplete character before the chunk.
        """
        # The error that is raised if UTF-16 has no byte-order mark lacks the attribute `start`.
        data, start = waiting + chunk, getattr(error, "start", 0)
        place = f"byte {self.offset - len(waiting) + start} is not {self.encoding}: {getattr(error, 'reason', error)}"
        window = data[max(0, start - GUESSED_BYTES // 2) : start + GUESSED_BYTES // 2]
        guess = guess_encoding(window, self.encoding)
        if self.decoding.undecodable == "refuse":
            raise EncodingError(self.label, self.encoding, place, guess)
        is_guess = self.decoding.undecodable == "guess"
        utf_8_until_now = is_utf_8(self.encoding) and not (self.ascii_until_now and data[:start].isascii())
        if is_guess and guess and not utf_8_until_now:
            return self.read_as(guess, data, place)
        self.decoder.errors = "replace"
        try:
            replaced = window.decode(self.encoding, "replace")
            text = self.decoder.decode(chunk, final=not chunk)
        # This error is raised if a byte-order mark is missing, or if the encoding does not support error handlers.
        except UnicodeError:
            raise EncodingError(self.label, self.encoding, place, guess) from None
        is_text = self.offset > 0 and self.decoding.to_the_end
        if is_guess and guess is None and not is_text and replaced.count("\ufffd") > MOSTLY * len(replaced):
            raise EncodingError(self.label, self.encoding, place, None)
        self.decoding.note(self.label, f"{place}; it is read as U+FFFD")
        return text

    def without_nul(self, text: str, chunk: bytes) -> str:
        """Return the text with each NUL replaced by U+FFFD.

        Raise EncodingError if there are many NULs, because the file then has another encoding or is not text.
        """
        mode, problem = self.decoding.undecodable, "contains NUL bytes, so it is not text"
        is_text = self.offset > 0 and self.decoding.to_the_end
        many = mode == "guess" and not is_text and text.count("\x00") > MOSTLY * len(text)
        if many or mode == "refuse":
            guess = guess_encoding(chunk[:GUESSED_BYTES], self.encoding)
            if mode == "refuse" or guess is None or self.offset:
                raise EncodingError(self.label, self.encoding, problem, guess)
            text = self.read_as(guess, chunk, problem)
        else:
            self.decoding.note(self.label, NUL_REPLACED)
        return text.replace("\x00", "\ufffd")

    def read_as(self, guess: str, data: bytes, problem: str) -> str:
        self.decoding.note(self.label, f"{problem}; {guess_told(data, guess)}")
        self.encoding = guess
        self.decoder = codecs.getincrementaldecoder(guess)("replace")
        return self.decoder.decode(data)


def single_lines(pieces: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a text that is given in pieces, with their line feeds."""
    for block in line_blocks(pieces):
        lines = block.split("\n")
        yield from (line + "\n" for line in lines[:-1])
        if lines[-1]:
            yield lines[-1]


def line_blocks(pieces: Iterator[str]) -> Iterator[str]:
    """Yield the text in pieces that end at line ends.

    A line that is longer than a piece is read into memory completely.
    """
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


def sound_text(text: str, label: str, decoding: Decoding) -> str:
    """Return the text with NUL and unpaired surrogates replaced by U+FFFD.

    Raise CorpusError if corpus.undecodable refuses them.
    """
    if "\x00" in text:
        if decoding.undecodable == "refuse":
            raise CorpusError(f"{label}: contains NUL bytes; fix the text, or set corpus.undecodable=replace")
        decoding.note(label, NUL_REPLACED)
        text = text.replace("\x00", "\ufffd")
    if not text.isascii() and (half := SURROGATE.search(text)):
        found = f"contains U+{ord(half[0]):04X}, half a surrogate pair"
        if decoding.undecodable == "refuse":
            raise CorpusError(f"{label}: {found};\nfix the text, or set corpus.undecodable=replace")
        decoding.note(label, f"{found}; it is read as U+FFFD")
        text = SURROGATE.sub("\ufffd", text)
    return text
