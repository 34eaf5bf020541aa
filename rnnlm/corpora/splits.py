"""Documents and their splits: a digest decides, so that a document stays where it is when the corpus grows.

A file, an archive member and a table row is a source. No document lies in two of them. Of SOURCES_TO_SPLIT_BY sources
or more each lies whole in one split; of fewer, such as a few books, each document is decided by itself.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from rnnlm.corpora.document_sources import read_sources
from rnnlm.corpora.stored_text import stored_lines
from rnnlm.records import CorpusRecord, Split

DOCUMENT_LINES = 50  # a longer paragraph, or a text without paragraphs, is cut into blocks of so many
DOCUMENT_BYTES = 8_192  # and into blocks of so many bytes at most, where no line is longer
SOURCES_TO_SPLIT_BY = 100  # fewer whole sources would leave a split of 5 % empty too often


@dataclass(frozen=True)
class CorpusDocument:
    """A paragraph with the blank lines after it; all documents' bytes add up to the corpus."""

    split: Split
    source_file: str  # within the corpus folder
    source_number: int  # of the file, archive member or table row that it is from, within source_file
    byte_offset: int
    data: bytes  # UTF-8
    sha256: str  # of the data, hexadecimal
    split_key: str  # 8 bytes, hexadecimal: the beginning of the digest that decides its split

    @property
    def lines(self) -> list[str]:
        """The text's lines without their line feeds; a final line feed begins no further line."""
        return self.data.decode("utf-8").removesuffix("\n").split("\n")


@dataclass(frozen=True)
class Stretch:
    """Whole documents that lie side by side in one file of a corpus."""

    source_file: str  # within the corpus folder
    byte_offset: int
    byte_count: int


def corpus_documents(corpus: CorpusRecord) -> Iterator[CorpusDocument]:
    """All documents of a corpus, in its order."""
    for file_name in corpus_files(corpus):
        size = (corpus.folder / file_name).stat().st_size
        yield from documents_in(corpus, Stretch(file_name, 0, size))


def documents_in(corpus: CorpusRecord, stretch: Stretch) -> Iterator[CorpusDocument]:
    """The documents of a stretch. Splits that the source gives are kept; the others are carved by digest."""
    role = role_of(corpus, stretch.source_file)
    sources = read_sources(corpus.folder, role)
    begin, end = stretch.byte_offset, stretch.byte_offset + stretch.byte_count
    lines = stored_lines(corpus.folder / stretch.source_file, begin, stretch.byte_count)
    starts = sources.starts_between(begin, end)
    number, next_start = sources.at(begin), next(starts, end)
    offset = begin
    for data in paragraphs(lines, (start - begin for start in sources.starts_between(begin, end))):
        if offset >= next_start:
            number, next_start = number + 1, next(starts, end)
        digest = hashlib.sha256(data)
        key = sources.digests[number].tobytes() if len(sources) >= SOURCES_TO_SPLIT_BY else digest.digest()[:8]
        split = carve(key, corpus.carved_shares) if role in ("text", "train") else cast(Split, role)
        yield CorpusDocument(split, stretch.source_file, number, offset, data, digest.hexdigest(), key.hex())
        offset += len(data)


def stretches(corpus: CorpusRecord, byte_count: int) -> Iterator[Stretch]:
    """The whole corpus in its order, in stretches of at least `byte_count` bytes but for a file's last one."""
    for file_name in corpus_files(corpus):
        path = corpus.folder / file_name
        starts = read_sources(corpus.folder, role_of(corpus, file_name)).starts_between(0, path.stat().st_size)
        start = size = 0
        for data in paragraphs(stored_lines(path), starts):
            size += len(data)
            if size >= byte_count:
                yield Stretch(file_name, start, size)
                start, size = start + size, 0
        if size:
            yield Stretch(file_name, start, size)


def role_of(corpus: CorpusRecord, file_name: str) -> str:
    (role,) = (role for role, name in corpus.files.items() if name == file_name)
    return role


def corpus_files(corpus: CorpusRecord) -> list[str]:
    return [name for _, name in sorted(corpus.files.items())]


def paragraphs(lines: Iterable[bytes], starts: Iterable[int] = ()) -> Iterator[bytes]:
    """Lines (with their ends) gathered up to the last of the blank lines after them, or to a block's size.

    A block ends at DOCUMENT_LINES or DOCUMENT_BYTES, and before each offset in `starts`, where a source begins.
    Blank is a line of ASCII white space. Where a paragraph begins, nothing before it matters.
    """
    gathered: list[bytes] = []
    text_seen = blank_after = False
    offset = size = 0
    borders = iter(starts)
    border = next(borders, None)
    for line in lines:
        blank = not line.strip()
        full = len(gathered) >= DOCUMENT_LINES or size + len(line) > DOCUMENT_BYTES
        if gathered and (offset == border or (not blank and (blank_after or full))):
            yield b"".join(gathered)
            gathered, size, text_seen, blank_after = [], 0, False, False
        if offset == border:
            border = next(borders, None)
        gathered.append(line)
        offset += len(line)
        size += len(line)
        text_seen = text_seen or not blank
        blank_after = text_seen and blank
    if gathered:
        yield b"".join(gathered)


def carve(key: bytes, shares: dict[Split, float]) -> Split:
    """The split of a document: the 8 bytes of its key as a fraction of 1, of which `test` has the lowest share."""
    fraction = int.from_bytes(key, "big") / 2**64
    test_share = shares.get("test", 0.0)
    if fraction < test_share:
        return "test"
    return "valid" if fraction < test_share + shares.get("valid", 0.0) else "train"
