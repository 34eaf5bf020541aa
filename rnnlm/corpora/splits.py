"""Documents and their splits: a document's own digest decides, so it stays where it is when the corpus grows."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rnnlm.config import CorpusConfig
from rnnlm.corpora.reading import read_lines
from rnnlm.records import CorpusRecord, Split

DOCUMENT_LINES = 50  # a longer paragraph, or a text without paragraphs, is cut into blocks of so many


@dataclass(frozen=True)
class Document:
    """A paragraph with the blank lines after it; all documents' bytes add up to the corpus."""

    split: Split
    source_file: str  # within the corpus folder
    byte_offset: int
    text: str


def documents(corpus: CorpusRecord, config: CorpusConfig) -> Iterator[Document]:
    """All documents in the corpus's order. Given splits are kept; what is not given is carved by digest."""
    shares = config.model_copy(
        update={f"{split}_share": 0.0 for split in ("valid", "test") if split not in carved_splits(corpus.files)}
    )
    for role, file_name in sorted(corpus.files.items()):
        offset = 0
        for text in paragraphs(read_lines(corpus.folder / file_name)):
            data = text.encode("utf-8")
            split: Split = split_of(data, shares) if role in ("text", "train") else role  # type: ignore[assignment]
            yield Document(split, file_name, offset, text)
            offset += len(data)


def carved_splits(roles: Iterable[str]) -> tuple[Split, ...]:
    """The splits that the source does not give, so that they are carved from `text` or `train`."""
    given = set(roles)
    return tuple(split for split in ("valid", "test") if split not in given)  # type: ignore[misc]


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Lines (with their ends) gathered up to the last of the blank lines after them, or to DOCUMENT_LINES."""
    gathered: list[str] = []
    text_seen = blank_after = False
    for line in lines:
        blank = not line.strip()
        if not blank and (blank_after or len(gathered) >= DOCUMENT_LINES):
            yield "".join(gathered)
            gathered, text_seen, blank_after = [], False, False
        gathered.append(line)
        text_seen = text_seen or not blank
        blank_after = text_seen and blank
    if gathered:
        yield "".join(gathered)


def split_of(document: bytes, config: CorpusConfig) -> Split:
    """The split of a document, decided by the first 8 bytes of its sha256 read as a fraction of 1."""
    fraction = int.from_bytes(hashlib.sha256(document).digest()[:8], "big") / 2**64
    if fraction < config.test_share:
        return "test"
    return "valid" if fraction < config.test_share + config.valid_share else "train"
