"""Documents and their splits: a document's own digest decides, so it stays where it is when the corpus grows."""

import hashlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from rnnlm.config import CorpusConfig
from rnnlm.corpora.reading import read_lines
from rnnlm.records import SPLITS, CorpusRecord, Split

DOCUMENT_LINES = 50  # a longer paragraph, or a text without paragraphs, is cut into blocks of so many


@dataclass(frozen=True)
class Document:
    """A paragraph with the blank lines after it; all documents' bytes add up to the corpus."""

    split: Split
    source_file: str  # within the corpus folder
    byte_offset: int
    data: bytes  # UTF-8
    sha256: str  # of the data, hexadecimal

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


def documents(corpus: CorpusRecord, config: CorpusConfig) -> Iterator[Document]:
    """All documents in the corpus's order."""
    for file_name in corpus_files(corpus):
        size = (corpus.folder / file_name).stat().st_size
        yield from documents_in(corpus, config, Stretch(file_name, 0, size))


def documents_in(corpus: CorpusRecord, config: CorpusConfig, stretch: Stretch) -> Iterator[Document]:
    """The documents of a stretch. Given splits are kept; what is not given is carved by digest."""
    shares = config.model_copy(update={f"{split}_share": 0.0 for split in SPLITS[1:] if split in corpus.files})
    (role,) = (role for role, name in corpus.files.items() if name == stretch.source_file)
    offset = stretch.byte_offset
    path = corpus.folder / stretch.source_file
    for data in paragraphs(read_lines(path, offset, stretch.byte_count)):
        digest = hashlib.sha256(data)
        split: Split = split_of(digest.digest(), shares) if role in ("text", "train") else role  # type: ignore[assignment]
        yield Document(split, stretch.source_file, offset, data, digest.hexdigest())
        offset += len(data)


def stretches(corpus: CorpusRecord, byte_count: int) -> Iterator[Stretch]:
    """The whole corpus in its order, in stretches of at least `byte_count` bytes but for a file's last one."""
    for file_name in corpus_files(corpus):
        start = size = 0
        for data in paragraphs(read_lines(corpus.folder / file_name)):
            size += len(data)
            if size >= byte_count:
                yield Stretch(file_name, start, size)
                start, size = start + size, 0
        if size:
            yield Stretch(file_name, start, size)


def corpus_files(corpus: CorpusRecord) -> list[str]:
    return [name for _, name in sorted(corpus.files.items())]


def carved_splits(roles: Container[str]) -> tuple[Split, ...]:
    """The splits that the source does not give, so that they are carved from `text` or `train`."""
    return tuple(split for split in SPLITS[1:] if split not in roles)


def paragraphs(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines (with their ends) gathered up to the last of the blank lines after them, or to DOCUMENT_LINES.

    Blank is a line of ASCII white space. Where a paragraph begins, nothing before it matters.
    """
    gathered: list[bytes] = []
    text_seen = blank_after = False
    for line in lines:
        blank = not line.strip()
        if not blank and (blank_after or len(gathered) >= DOCUMENT_LINES):
            yield b"".join(gathered)
            gathered, text_seen, blank_after = [], False, False
        gathered.append(line)
        text_seen = text_seen or not blank
        blank_after = text_seen and blank
    if gathered:
        yield b"".join(gathered)


def split_of(digest: bytes, config: CorpusConfig) -> Split:
    """The split of a document, decided by the first 8 bytes of its sha256 read as a fraction of 1."""
    fraction = int.from_bytes(digest[:8], "big") / 2**64
    if fraction < config.test_share:
        return "test"
    return "valid" if fraction < config.test_share + config.valid_share else "train"
