"""Files with prose that a reader has to find, such as PDF and HTML. An extension brings the reader."""

from collections.abc import Callable, Iterable
from typing import Protocol

from rnnlm.extension_points import plugged


class DocumentError(Exception):
    """The reason why a document cannot be read. The document is listed, and the other files are read."""


class DocumentReader(Protocol):
    """A module that reads documents of the kinds of split_names.DOCUMENT_SUFFIXES."""

    MAXIMUM_BYTES: dict[str, int]  # kind → size of the largest document that is read
    BINARY_KINDS: dict[str, Callable[[bytes], str]]  # kinds that are read from bytes; others are decoded before

    def declared_charset(self, head: bytes) -> str | None:
        """Return the encoding that an HTML page declares for itself in its first bytes."""

    def document_prose(self, kind: str, data: bytes, text: str) -> str:
        """Return the prose of `data` for a kind of BINARY_KINDS, else that of `text`.

        Raise DocumentError if there is none.
        """

    def library_versions(self, names: Iterable[str]) -> dict[str, str]:
        """Return the libraries that the prose of these files depends on, with their versions, "" if not installed."""


def document_reader() -> DocumentReader:
    """Return the reader of documents. Raise DocumentError if there is none."""
    readers: list[DocumentReader] = plugged("documents")
    if not readers:
        raise DocumentError("is not read without rnnlm/extensions/documents; save it as .txt")
    return readers[0]


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """See DocumentReader. Without a reader nothing depends on any."""
    readers: list[DocumentReader] = plugged("documents")
    return readers[0].library_versions(names) if readers else {}
