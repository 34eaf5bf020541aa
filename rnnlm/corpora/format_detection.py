"""Detection of a file's format from its first bytes or, if they are not sufficient, from its suffix."""

import re
from typing import Literal

from rnnlm.corpora.document_formats import DocumentError
from rnnlm.corpora.split_names import DOCUMENT_SUFFIXES, SOURCE_CODE, TABLE_SUFFIXES, suffix_of

# The signature of Parquet files and the first byte of their first header, which excludes text that begins with PAR1.
PARQUET_MARK = b"PAR1\x15"
TAR_MARK = slice(257, 262)
# The possessive group (?>…) avoids backtracking, because a page may begin with many comments.
HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?>(?:<\?xml.*?\?>|<!--.*?-->)\s*)*+<(?:!doctype\s+html|html)\b", re.I | re.S)
PAGE_INSTEAD = "the server may require a login"
JSON_BEGINNING = re.compile(rb"\s*(?:\[\s*)?\{\s*\"(?:[^\"\\]|\\.)*\"\s*:")
# Bytes that do not occur near the beginning of text. They distinguish binary data from text that begins with a
# signature such as "ORC".
CONTROL_BYTE = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
BINARY_FORMATS = (  # The offset of the signature, the signature, and advice for the user, for each format.
    (0, b"SQLite format 3\0", "an SQLite database; export the text"),
    (8, b"DUCK", "a DuckDB database; export the text, or give rnnlm score a query"),
    (0, b"ARROW1\0", "an Arrow file; write it as Parquet"),
    (0, b"FEA1", "a Feather file; write it as Parquet"),
    (0, b"ORC", "an ORC file; write it as Parquet"),
    (0, b"Obj\x01", "an Avro file; write it as Parquet"),
    (0, b"\x89HDF\r\n", "an HDF5 file; export the text"),
    (0, b"\x93NUMPY", "a NumPy array; export the text"),
    (0, b"\x80\x04\x95", "a Python pickle, which is not opened; export the text"),
    (0, b"\x80\x05\x95", "a Python pickle, which is not opened; export the text"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (0, b"Rar!\x1a\x07", "a rar archive; unpack it"),
    (0, b"\x1f\x9d", "compressed with compress; unpack it"),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4; unpack it"),
    (0, b"\xff\x06\x00\x00sNaPpY", "compressed with snappy; unpack it"),
    (0, b"LZIP", "compressed with lzip; unpack it"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document; save it as .txt or .docx"),
    (0, b"\x89PNG\r\n", "a picture"),
    (0, b"\xff\xd8\xff", "a picture"),
    (0, b"GIF8", "a picture"),
    (0, b"\x7fELF", "a program"),
)
MARKUP_FORMATS = (
    (0, b"{\\rtf", "an RTF document; save it as .txt or .docx"),
    (0, b"%!PS-", "a PostScript document; save it as .txt or .pdf"),
    (0, b"version https://git-lfs.github.com/spec/", "a pointer of Git LFS; fetch the file with git lfs pull"),
)


def archive_kind(head: bytes, name: str) -> Literal["tar", "zip"] | None:
    """Return "tar" or "zip" if the first bytes show that the file is such an archive, otherwise None.

    A tar in the format from before 1988 is recognised by its name.
    """
    if suffix_of(name) in DOCUMENT_SUFFIXES:  # Some documents are zip files, but are not read as archives.
        return None
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    return "tar" if head[TAR_MARK] == b"ustar" or (suffix_of(name) == ".tar" and head) else None


def detect_format(head: bytes, name: str) -> str:
    """Return "text", a kind of table or a kind of document. Raise DocumentError, with the reason, for any other format.

    Args:
        head: The first bytes, decompressed.
        name: The file's name without a compression suffix.
    """
    if head.startswith(PARQUET_MARK):
        return "parquet"
    if head.startswith(b"%PDF-"):
        return "pdf"
    for place, mark, what in BINARY_FORMATS + MARKUP_FORMATS if CONTROL_BYTE.search(head) else MARKUP_FORMATS:
        if head[place : place + len(mark)] == mark:
            raise DocumentError(f"is {what}")
    suffix = suffix_of(name)
    if DOCUMENT_SUFFIXES.get(suffix) not in ("html", "markdown") and suffix not in SOURCE_CODE and HTML.match(head):
        if suffix in TABLE_SUFFIXES or suffix in DOCUMENT_SUFFIXES:
            raise DocumentError(f"is an HTML page and not a {suffix} file; {PAGE_INSTEAD}")
        return "html"  # The content alone decides, because a saved page may have any suffix.
    # Files without a suffix may be JSON lines, such as the part files of Spark.
    if not suffix and JSON_BEGINNING.match(head):
        return "jsonl"
    return TABLE_SUFFIXES.get(suffix) or DOCUMENT_SUFFIXES.get(suffix, "text")
