"""The DocumentReader of corpora/document_formats.py."""

from collections.abc import Iterable

from rnnlm.extensions.documents import document_prose


class ProseReader:
    def maximum_bytes(self, kind: str) -> int:
        return document_prose.MAXIMUM_BYTES[kind]

    def is_binary(self, kind: str) -> bool:
        return kind in document_prose.BINARY_KINDS

    def declared_charset(self, head: bytes) -> str | None:
        return document_prose.declared_charset(head)

    def prose(self, kind: str, data: bytes, markup: str) -> str:
        return document_prose.document_prose(kind, data, markup)

    def library_versions(self, names: Iterable[str]) -> dict[str, str]:
        return document_prose.library_versions(names)


PROSE_READER = ProseReader()
