"""Decompression with limits: a decompression bomb or damaged data raises a CorpusError."""

import bz2
import gzip
import io
import lzma
from typing import Any

from rnnlm.config import CorpusConfig
from rnnlm.corpora.split_names import uncompressed_name
from rnnlm.corpora.text_encoding import Readable, printable
from rnnlm.errors import CorpusError

HEAD_BYTES = 512  # of a stream, read ahead to detect its kind: a tar's mark ends at byte 263
RATIO_FROM_BYTES = 16 << 20  # shorter texts may have any ratio: one repeated letter shrinks a lot
MAGIC = {
    "gzip": (b"\x1f\x8b\x08",),
    "bzip2": tuple(b"BZh%d" % level + mark for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
    "xz": (b"\xfd7zXZ\x00",),
    "zstd": (b"\x28\xb5\x2f\xfd",),
}


class Meter:
    """Counts the unpacked bytes of a file. CorpusError as soon as they exceed the configured limits."""

    def __init__(self, label: str, packed_bytes: int, config: CorpusConfig, earlier: int = 0) -> None:
        self.label = label
        self.packed_bytes = max(packed_bytes, 1)
        self.maximum_bytes = config.maximum_unpacked_bytes
        self.maximum_ratio = config.maximum_unpacking_ratio
        self.earlier = earlier  # unpacked from other files of the source
        self.unpacked_bytes = 0

    def add(self, count: int, label: str) -> None:
        self.unpacked_bytes += count
        if self.earlier + self.unpacked_bytes > self.maximum_bytes:
            raise CorpusError(
                f"{label}: unpacks to more than {self.maximum_bytes:,} bytes (corpus.maximum_unpacked_bytes)"
            )
        if self.unpacked_bytes > max(RATIO_FROM_BYTES, self.maximum_ratio * self.packed_bytes):
            raise CorpusError(
                f"{label}: unpacks to more than {self.maximum_ratio:g} times its size (corpus.maximum_unpacking_ratio)"
            )


class ByteStream(io.RawIOBase):
    """A forward-only stream; subclasses define read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class Peeked(ByteStream):
    """A stream with its first bytes in `head`; reading still returns them."""

    def __init__(self, inner: Readable) -> None:
        self.inner = inner
        self.head = b""
        while len(self.head) < HEAD_BYTES and (data := inner.read(HEAD_BYTES - len(self.head))):
            self.head += data
        self.waiting = self.head

    def read(self, size: int = -1) -> bytes:
        if not self.waiting:
            return self.inner.read(size)
        count = len(self.waiting) if size < 0 else size
        data, self.waiting = self.waiting[:count], self.waiting[count:]
        return data + self.inner.read(-1) if size < 0 else data


class Unpacked(ByteStream):
    """The output of a decompressor, metered; its many error types become one CorpusError."""

    def __init__(self, inner: Readable, kind: str, label: str, meter: Meter, step: int = 1 << 20) -> None:
        self.inner, self.kind, self.label, self.meter = inner, kind, label, meter
        self.step = step  # bytes read at once

    def read(self, size: int = -1) -> bytes:
        try:
            data = self.inner.read(self.step if size < 0 else min(size, self.step))
        except CorpusError:
            raise
        except Exception as error:  # zlib.error, EOFError, LZMAError, OSError, BadZipFile, ValueError, MemoryError …
            raise damaged(self.label, self.kind, error) from error
        self.meter.add(len(data), self.label)
        return data


def damaged(label: str, kind: str, error: Exception) -> CorpusError:
    """The error for data that a decompressor or archive reader cannot read."""
    reason = printable(str(error).partition("\n")[0]) or type(error).__name__
    return CorpusError(f"{label}: damaged or truncated {kind} data ({reason}); get the file again")


def compression_of(head: bytes) -> str | None:
    return next((kind for kind, marks in MAGIC.items() if head.startswith(marks)), None)


def decompressed(stream: Peeked, name: str, label: str, meter: Meter) -> tuple[Peeked, str]:
    """The decompressed stream, and its name without the suffix of the compression."""
    kind = compression_of(stream.head)
    if kind is None:
        return stream, uncompressed_name(name)
    inner = Peeked(Unpacked(decompressor(stream, kind, label), kind, label, meter))
    if compression_of(inner.head):
        raise CorpusError(f"{label}: is compressed twice; decompress it once and give the result")
    return inner, uncompressed_name(name)


def decompressor(stream: ByteStream, kind: str, label: str) -> Any:
    """A decompressor of the standard library, or pyarrow's for zstd; all accept concatenated streams."""
    if kind == "gzip":
        return gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[call-overload]
    if kind == "bzip2":
        return bz2.BZ2File(stream)  # type: ignore[call-overload]
    if kind == "xz":
        return lzma.LZMAFile(stream)  # type: ignore[arg-type]
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, mode="r"), "zstd")
