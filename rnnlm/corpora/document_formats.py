"""The interface to an extension that extracts the prose of documents such as PDF and HTML."""

from collections.abc import Callable, Iterable
from typing import Protocol

from rnnlm.extension_points import plugged


class DocumentError(Exception):
    """An error with the reason why a document cannot be read. The reason is reported, and the other files are read."""


class DocumentReader(Protocol):
    """The functions and constants of a module that reads documents.

    The suffixes of documents are in split_names.DOCUMENT_SUFFIXES.
    """

    MAXIMUM_BYTES: dict[str, int]  # The size in bytes of the largest document that is read, for each kind.
    # The function that returns the prose, for each kind that is read from bytes. Documents of other kinds are decoded
    # to text first.
    BINARY_KINDS: dict[str, Callable[[bytes], str]]

    def declared_charset(self, head: bytes) -> str | None:
        """Return the encoding that an HTML page declares in its first bytes, or None."""

    def document_prose(self, kind: str, data: bytes, text: str) -> str:
        """Return the prose of `data` if the kind is in BINARY_KINDS, otherwise the prose of `text`.

        Raise DocumentError if the document contains no prose.
        """

    def library_versions(self, names: Iterable[str]) -> dict[str, str]:
        """Return the versions of the libraries that extract the text of the given files.

        A different version may extract different text. A missing library has the version "".
        """


def document_reader() -> DocumentReader:
    """Return the reader of documents. Raise DocumentError if no extension provides one."""
    readers: list[DocumentReader] = plugged("documents")
    if not readers:
        raise DocumentError("is not read without rnnlm/extensions/documents; save it as .txt")
    return readers[0]


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the libraries that extract the text of the given files; see DocumentReader.

    Without a reader of documents, the result is empty.
    """
    readers: list[DocumentReader] = plugged("documents")
    return readers[0].library_versions(names) if readers else {}
