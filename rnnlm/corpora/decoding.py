"""A stranger's bytes become our text: UTF-8, line feeds, nothing binary; or the error says where."""

import codecs
import io
from pathlib import Path
from typing import BinaryIO

from rnnlm.errors import CorpusError

CHUNK_BYTES = 1 << 20


def append_text(source: Path, encoding: str, target: BinaryIO) -> bool:
    """Append the file's text to `target` as UTF-8 with line feeds. Returns whether there was any non-space.

    CorpusError names file and byte offset of what is no text in that encoding.
    """
    try:
        decoder = codecs.getincrementaldecoder(encoding)("strict")
    except LookupError:
        raise CorpusError(
            f"corpus.encoding: {encoding!r} is no encoding that Python knows; try utf-8 or latin-1"
        ) from None
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    offset, any_text, last = 0, False, ""
    try:
        with source.open("rb") as stream:
            while True:
                chunk = stream.read(CHUNK_BYTES)
                waiting = len(decoder.getstate()[0])  # bytes of a character that the last chunk cut
                try:
                    text = decoder.decode(chunk, final=not chunk)
                except UnicodeDecodeError as error:
                    raise CorpusError(
                        f"{source}: byte {offset - waiting + error.start} is not {encoding}: {error.reason};\n"
                        "name the file's encoding, such as --set corpus.encoding=latin-1"
                    ) from None
                if "\x00" in text:
                    raise CorpusError(f"{source}: holds NUL bytes, so it is no text; give a text file")
                text = line_ends.decode(text, final=not chunk)
                if offset == 0:
                    text = text.removeprefix("\ufeff")  # a byte-order mark is no text
                target.write(text.encode("utf-8"))
                any_text = any_text or bool(text.strip())
                last = text[-1:] or last
                offset += len(chunk)
                if not chunk:
                    break
    except OSError as error:
        raise CorpusError(f"{source}: cannot be read ({error.strerror}); check its path and permissions") from error
    if last not in ("", "\n"):
        target.write(b"\n")  # a text's last line ends like the others
    return any_text
