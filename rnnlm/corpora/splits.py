"""The documents of a corpus and their splits.

A digest determines the split of a document, so that the split stays the same when the corpus grows.

A document is a paragraph. If no blank line ends a paragraph for DOCUMENT_LINES lines, a document is a block of a few
lines. It ends with a line for which line_digests.ends_block() is true, so that lines inserted elsewhere do not move it.

A source is a file, an archive member or a table row. No document spans two sources. A corpus with at least
SOURCES_TO_SPLIT_BY sources is split by whole sources. A corpus with fewer than half of that, such as a few books, is
split by documents. In between, a document is held out if either rule holds it out. Hence a model that was trained
before the number of sources reached the limit can be compared with a later model, because both have held out some of
the same documents.
"""

import hashlib
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rnnlm.corpora.line_digests import ends_block
from rnnlm.corpora.source_index import SourceIndex, read_source_index
from rnnlm.storage.records import CorpusRecord, Split

# The maximum number of lines of a document. A longer paragraph is divided into blocks, and so is text without
# paragraphs.
DOCUMENT_LINES = 50
DOCUMENT_BYTES = 8_192  # The maximum size of a document in bytes, unless a single line is larger.
# The number of bytes in which a blank line is searched for. A document starts after the blank line.
SEARCHED_BYTES = 65_536
# The smallest number of sources for which whole sources are held out. With fewer sources, a split of 5 % would often be
# empty.
SOURCES_TO_SPLIT_BY = 100
NO_LETTER = re.compile(r"[\W\d_]+")
NO_ASCII_LETTER = bytes(set(range(128)) - set(string.ascii_letters.encode()))


@dataclass(frozen=True)
class CorpusDocument:
    """A paragraph or a part of one, with the blank lines after it. All documents together are the whole corpus."""

    split: Split
    source_file: str  # The name of the file in the corpus folder.
    source_number: int  # The number of the document's source within source_file.
    byte_offset: int
    data: bytes  # The text of the document in UTF-8.
    sha256: str  # The sha256 of `data` in hexadecimal.
    split_key: str  # The first 8 bytes, in hexadecimal, of the digest that determines the split.

    @property
    def lines(self) -> list[str]:
        """The lines without their line feeds. A final line feed does not begin another line."""
        return self.data.decode("utf-8").removesuffix("\n").split("\n")


@dataclass(frozen=True)
class ByteRange:
    """A range of whole documents in one file of a corpus."""

    source_file: str  # The name of the file in the corpus folder.
    byte_offset: int
    byte_count: int


def corpus_documents(corpus: CorpusRecord) -> Iterator[CorpusDocument]:
    """Yield all documents of a corpus that are used, in the order of the corpus."""
    for file_name in corpus_files(corpus):
        size = (corpus.folder / file_name).stat().st_size
        yield from documents_in(corpus, ByteRange(file_name, 0, size))


def documents_in(corpus: CorpusRecord, byte_range: ByteRange) -> Iterator[CorpusDocument]:
    """Yield the documents of a byte range.

    Splits that the source provides are kept; digests determine the other splits. Training documents that are not in the
    sample are skipped.
    """
    role = role_of(corpus, byte_range.source_file)
    sources = read_source_index(corpus.folder, role)
    begin, end = byte_range.byte_offset, byte_range.byte_offset + byte_range.byte_count
    lines = stored_lines(corpus.folder / byte_range.source_file, begin, byte_range.byte_count)
    starts = sources.starts_between(begin, end)
    number, next_start = sources.at(begin), next(starts, end)
    shares = corpus.carved_shares
    offset = begin
    relative_starts = (start - begin for start in sources.starts_between(begin, end))
    for data in paragraphs(lines, relative_starts, corpus.document_lines or DOCUMENT_LINES):
        if offset >= next_start:
            number, next_start = number + 1, next(starts, end)
        digest = hashlib.sha256(data)
        key = split_key(digest.digest()[:8], sources.digests[number].tobytes(), len(sources))
        split = carve(key, shares) if role in ("text", "train") else cast(Split, role)
        document = CorpusDocument(split, byte_range.source_file, number, offset, data, digest.hexdigest(), key.hex())
        if split != "train" or corpus.sample is None or document.sha256 < corpus.sample.below:
            yield document
        offset += len(data)


def split_key(of_document: bytes, of_source: bytes, source_count: int) -> bytes:
    """Return the 8-byte digest that determines the split of a document.

    If there are few sources, this is the document's own digest. If there are many, it is the digest of the document's
    source. If the number of sources is between half of SOURCES_TO_SPLIT_BY and SOURCES_TO_SPLIT_BY, it is the smaller
    of the two, because documents with small digests are held out.
    """
    if source_count >= SOURCES_TO_SPLIT_BY:
        return of_source
    return min(of_document, of_source) if source_count >= SOURCES_TO_SPLIT_BY // 2 else of_document


def carve(key: bytes, shares: dict[Split, float]) -> Split:
    """Return the split of a document, given its 8-byte key.

    The key is read as a fraction of 1. The document belongs to the test split if key < test, otherwise to the
    validation split if key < test + valid, where `test` and `valid` are the fractions in `shares`.
    """
    fraction = int.from_bytes(key, "big") / 2**64
    test_share = shares.get("test", 0.0)
    if fraction < test_share:
        return "test"
    return "valid" if fraction < test_share + shares.get("valid", 0.0) else "train"


def byte_ranges(corpus: CorpusRecord, byte_count: int) -> Iterator[ByteRange]:
    """Yield the whole corpus in order as ranges of at least `byte_count` bytes.

    The last range of a file may be smaller.
    """
    for file_name in corpus_files(corpus):
        path = corpus.folder / file_name
        sources = read_source_index(corpus.folder, role_of(corpus, file_name))
        begin, size = 0, path.stat().st_size
        while begin < size:
            end = size if begin + byte_count >= size else document_start(path, sources, begin + byte_count)
            if end is None:
                end = next_document(path, sources, begin, byte_count, corpus.document_lines or DOCUMENT_LINES)
            yield ByteRange(file_name, begin, end - begin)
            begin = end


def document_start(path: Path, sources: SourceIndex, position: int) -> int | None:
    """Return the offset of a document at or soon after `position`, or None if none is found.

    A document starts at the beginning of a source. It also starts at a line of text after blank lines, if another line
    of text precedes them. Such a start does not depend on where reading began.
    """
    text_seen = blank_after = False
    found: int | None = None
    with path.open("rb") as stream:
        stream.seek(position - 1)
        stream.readline()  # Skip the rest of the line at `position`.
        offset = stream.tell()
        for line in stream:
            blank = not line.strip()
            if blank_after and not blank:
                found = offset
            if found is not None or offset >= position + SEARCHED_BYTES:
                break
            offset += len(line)
            text_seen = text_seen or not blank
            blank_after = text_seen and blank
    return next(sources.starts_between(position - 1, offset), found)


def next_document(path: Path, sources: SourceIndex, begin: int, byte_count: int, document_lines: int) -> int:
    """Return the offset of a document at least `byte_count` bytes after the one at `begin`, or the end of the file."""
    starts = (start - begin for start in sources.starts_between(begin, path.stat().st_size))
    end = begin
    for data in paragraphs(stored_lines(path, begin), starts, document_lines):
        if end >= begin + byte_count:
            break
        end += len(data)
    return end


def role_of(corpus: CorpusRecord, file_name: str) -> str:
    (role,) = (role for role, name in corpus.files.items() if name == file_name)
    return role


def corpus_files(corpus: CorpusRecord) -> list[str]:
    return [name for _, name in sorted(corpus.files.items())]


def paragraphs(
    lines: Iterable[bytes], starts: Iterable[int] = (), document_lines: int = DOCUMENT_LINES
) -> Iterator[bytes]:
    """Yield the documents of a text. A document is a paragraph with the blank lines after it.

    A paragraph of more than document_lines lines or DOCUMENT_BYTES bytes is divided into blocks. Each block ends with a
    line for which ends_block() is true, or when it reaches one of these limits. A document ends before each offset in
    `starts`, where a source begins. A line of ASCII white space is blank. A paragraph does not depend on the text
    before it.
    """
    gathered: list[bytes] = []
    # Whether the current paragraph is long, whether it has text, and whether blank lines follow its text.
    is_long = text_seen = blank_after = False
    offset = size = 0
    borders = iter(starts)
    border = next(borders, None)

    def is_full(line: bytes) -> bool:
        # Blank lines alone are not a document.
        enough = len(gathered) >= document_lines and (text_seen or document_lines > 1)
        return enough or size + len(line) > DOCUMENT_BYTES

    for line in lines:
        blank = not line.strip()
        if gathered and (offset == border or (not blank and blank_after)):
            yield b"".join(gathered)
            gathered, size, is_long, text_seen, blank_after = [], 0, False, False, False
        if gathered and not blank and (is_long or is_full(line)):
            if not is_long:
                *blocks, gathered = cut_at_block_ends(gathered)
                yield from (b"".join(block) for block in blocks)
                is_long, size = True, sum(map(len, gathered))
            if is_full(line) or ends_block(gathered[-1]):
                yield b"".join(gathered)
                gathered, size = [], 0
        if offset == border:
            border = next(borders, None)
        gathered.append(line)
        offset += len(line)
        size += len(line)
        text_seen = text_seen or not blank
        blank_after = text_seen and blank
    if gathered:
        yield b"".join(gathered)


def cut_at_block_ends(lines: list[bytes]) -> list[list[bytes]]:
    """Divide the lines after each line for which ends_block() is true.

    The last part is not empty, but may be an incomplete block.
    """
    parts: list[list[bytes]] = [[]]
    for line in lines:
        if parts[-1] and ends_block(parts[-1][-1]):
            parts.append([])
        parts[-1].append(line)
    return parts


def stored_lines(path: Path, byte_offset: int = 0, byte_count: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a byte range of a corpus file one by one, with their line feeds.

    The range must begin and end at line boundaries. If `byte_count` is None, it extends to the end of the file.
    """
    left = byte_count
    with path.open("rb") as stream:
        stream.seek(byte_offset)
        for line in stream:
            if left is not None:
                if left <= 0:
                    return
                left -= len(line)
            yield line


def text_fingerprint(data: bytes) -> str:
    """Return the sha256 of the text's letters in hexadecimal. Cleaning a text does not change its fingerprint."""
    return hashlib.sha256(letters_of(data)).hexdigest()


def letters_of(data: bytes) -> bytes:
    """Return the letters of a UTF-8 text in one case and one Unicode form, or the whole text if it has no letters.

    Unicode normalisation, lower case, replaced digits and changed white space do not change the result.
    """
    if data.isascii():  # For ASCII, the same result is computed a hundred times faster.
        letters = data.lower().translate(None, NO_ASCII_LETTER)
    else:
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", data.decode("utf-8", "replace")).casefold())
        letters = NO_LETTER.sub("", text).encode()
    return letters or data
