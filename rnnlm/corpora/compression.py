"""Decompression with limits. A decompression bomb or damaged data raises CorpusError."""

import bz2
import contextlib
import gzip
import io
import lzma
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rnnlm.config import CorpusConfig
from rnnlm.corpora.printable_names import printable, unreadable
from rnnlm.corpora.split_names import uncompressed_name
from rnnlm.corpora.text_encoding import READ_AT_ONCE, Readable
from rnnlm.errors import CorpusError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# The number of bytes at the beginning of a file from which its format is detected. A tar archive's signature ends at
# byte 263.
HEAD_BYTES = 512
# The number of compressed bytes that zipfile reads at once. It is small, because zipfile decompresses all these bytes
# at once if the method is bzip2 or LZMA.
ZIP_READ_AT_ONCE = 4096
# The number of unpacked bytes above which the compression ratio is checked. In a short text, repeated letters may
# exceed the limit of the ratio.
RATIO_FROM_BYTES = 16 << 20
MAGIC = {
    "gzip": (b"\x1f\x8b\x08",),
    "bzip2": tuple(b"BZh%d" % level + mark for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
    "xz": (b"\xfd7zXZ\x00",),
    "lzma": (b"\x5d\x00\x00",),  # The signature of .lzma files, whose format preceded xz.
    "zstd": (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))),
}
# The logarithm to base 2 of the largest window, which `zstd --long=31` writes. By default libraries refuse windows
# above 27.
LARGEST_WINDOW_LOG = 31


class Meter:
    """A counter of the bytes that a file unpacks to.

    The counter raises CorpusError as soon as their number exceeds a configured limit.
    """

    def __init__(self, packed_bytes: int, config: CorpusConfig, earlier_bytes: int = 0) -> None:
        """Create the counter for a file of `packed_bytes` bytes.

        `earlier_bytes` is the number of bytes that were unpacked from other files of the source.
        """
        self.packed_bytes = max(packed_bytes, 1)
        self.config, self.earlier_bytes = config, earlier_bytes
        self.unpacked_bytes = 0

    def add(self, count: int, label: str) -> None:
        self.unpacked_bytes += count
        most, ratio = self.config.maximum_unpacked_bytes, self.config.maximum_unpacking_ratio
        if self.earlier_bytes + self.unpacked_bytes > most:
            raise CorpusError(
                f"{label}: unpacks to more than {most:,} bytes; "
                "if you trust the file, raise corpus.maximum_unpacked_bytes"
            )
        if self.unpacked_bytes > max(RATIO_FROM_BYTES, ratio * self.packed_bytes):
            raise CorpusError(
                f"{label}: unpacks to more than {ratio:g} times its size; "
                "if you trust the file, raise corpus.maximum_unpacking_ratio"
            )


class OpenFile(io.BufferedReader):
    """A decompressed file or archive member, whose first bytes can be inspected before the rest is read.

    The file is seekable if it is stored on disk without compression.
    """

    def __init__(self, raw: io.RawIOBase, name: str, label: str, meter: Meter) -> None:
        """Wrap a file.

        Args:
            name: The name of the file without a compression suffix.
            label: The name of the file in messages.
        """
        super().__init__(raw)
        self.plain_name, self.label, self.meter = name, label, meter

    @property
    def head(self) -> bytes:
        return self.peek(HEAD_BYTES)[:HEAD_BYTES]


class Unpacked(io.RawIOBase):
    """The output of a decompressor or of an archive, whose bytes are counted."""

    def __init__(self, inner: Readable, kind: str, label: str, meter: Meter) -> None:
        self.inner, self.kind, self.label, self.meter = inner, kind, label, meter
        self.step = ZIP_READ_AT_ONCE if kind == "zip" else READ_AT_ONCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with damage_explained(self.label, self.kind):
            data = self.inner.read(min(len(buffer), self.step))
        self.meter.add(len(data), self.label)
        buffer[: len(data)] = data
        return len(data)


@contextlib.contextmanager
def damage_explained(label: str, kind: str) -> Iterator[None]:
    """Raise CorpusError in place of the many error types that libraries raise for damaged `kind` data."""
    try:
        yield
    except CorpusError:
        raise
    except Exception as error:
        reason = printable(str(error).partition("\n")[0]) or type(error).__name__
        # An OSError with an errno is passed on, because it comes from the disk or the network file system and the data
        # may be intact.
        if isinstance(error, OSError) and error.errno:
            raise unreadable(label, error) from error
        if isinstance(error, NotImplementedError):
            raise CorpusError(
                f"{label}: this variant of {kind} cannot be read ({reason}); compress the file in another way"
            ) from error
        if isinstance(error, MemoryError):
            raise CorpusError(f"{label}: unpacking it needs more memory than is available ({reason})") from error
        if "decrypt" in reason:
            raise CorpusError(
                f"{label}: is encrypted ({reason}); decrypt the file and give the decrypted file"
            ) from error
        raise CorpusError(f"{label}: damaged or truncated {kind} data ({reason}); get the file again") from error


def compression_of(head: bytes) -> str | None:
    return next((kind for kind, marks in MAGIC.items() if head.startswith(marks)), None)


def decompressed(raw: io.RawIOBase, name: str, label: str, meter: Meter) -> OpenFile:
    """Return the file, which is decompressed if its first bytes are those of a known compression format."""
    opened = OpenFile(raw, uncompressed_name(name), label, meter)
    kind = compression_of(opened.head)
    if kind is None:
        return opened
    inner = OpenFile(Unpacked(decompressor(opened, kind), kind, label, meter), opened.plain_name, label, meter)
    if compression_of(inner.head):
        raise CorpusError(f"{label}: is compressed twice; decompress the file once and give the decompressed file")
    return inner


def decompressor(stream: OpenFile, kind: str) -> Readable:
    """Return a decompressor for a file, which may consist of several concatenated streams."""
    if kind == "gzip":
        return gzip.GzipFile(fileobj=stream, mode="rb")
    return ConcatenatedStreams(stream, DECOMPRESSORS[kind])


def zstd_decompressor() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW_LOG})


DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "lzma": lzma.LZMADecompressor,
    "zstd": zstd_decompressor,
}


class ConcatenatedStreams:
    """A reader of concatenated compressed streams, with zero bytes between them and after the last stream.

    The readers of the standard library stop without an error at the zero bytes that xz may add to a stream.
    """

    def __init__(self, stream: Readable, new_decompressor: Callable[[], Any]) -> None:
        self.stream, self.new_decompressor = stream, new_decompressor
        self.decompressor, self.data = new_decompressor(), b""

    def read(self, size: int = -1, /) -> bytes:
        """Return at least one and at most `size` bytes, or none at the end.

        Raise EOFError if the last stream is truncated.
        """
        while True:
            if self.decompressor.eof and not self.begin_next():
                return b""
            if not self.data and self.decompressor.needs_input:
                self.data = self.stream.read(READ_AT_ONCE)
                if not self.data:
                    raise EOFError("its last compressed stream is incomplete")
            data, self.data = self.data, b""
            if found := self.decompressor.decompress(data, size):
                return bytes(found)

    def begin_next(self) -> bool:
        """Begin the next compressed stream. Return False if there is none."""
        data = self.decompressor.unused_data.lstrip(b"\0")
        while not data and (data := self.stream.read(READ_AT_ONCE)):
            data = data.lstrip(b"\0")
        if data:
            self.decompressor, self.data = self.new_decompressor(), data
        return bool(data)
