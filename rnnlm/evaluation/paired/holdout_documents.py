"""The text on which two models may be compared: validation lines that neither model was trained or selected on."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rnnlm.corpora.line_digests import chooses, line_digests
from rnnlm.corpora.source_index import read_source_index
from rnnlm.errors import CorpusError
from rnnlm.evaluation.paired.seen_text import ABOVE_ALL, bound_of, seen_lines
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import literal

# The number of bytes of text that are scored together. The losses of all their tokens are in memory at once.
TEXT_BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class HoldoutDocument:
    """A whole document of the corpus, with the numbers of its lines that are compared."""

    document_id: int
    source_file: str  # The path of the document's file within the corpus folder.
    byte_offset: int
    byte_count: int
    sha256: str  # The sha256 of the document in hexadecimal.
    compared: tuple[int, ...] = ()  # The numbers of the document's lines that are compared, from 0 on.
    digests: tuple[int, ...] = ()  # The digests of the lines that are compared.


def comparison_documents(
    dataset: DatasetRecord,
    folder: Path,
    seen: Sequence[Path],
    maximum: int | None = None,
    seed: int = 0,
    fewest_lines: int = 0,
    *,
    lines_are_known: bool = True,
) -> list[HoldoutDocument]:
    """Return the validation documents with lines on which two models are compared, in the order of the corpus.

    See holdout_documents() and find_compared_lines() for the selection of documents and lines.

    Args:
        dataset: The dataset with the validation split.
        folder: The folder of the corpus.
        seen: The files of write_seen_text() of both models.
        maximum: The largest number of documents. If None, all are used.
        seed: The seed of the random sample of documents.
        fewest_lines: If fewer lines are left, lines that the models have seen are used, too. In a text that repeats its
            lines, such as a log, the models have seen all lines.
        lines_are_known: Whether the files list the lines that the models have seen. If not, only whole paragraphs are
            compared, because the files have the fingerprints of paragraphs.
    """
    documents = holdout_documents(dataset, seen, maximum, seed)
    if not lines_are_known:
        documents = [document for document in documents if is_whole_paragraph(folder, document)]
    found = find_compared_lines(folder, documents, seen_lines(seen), min(map(bound_of, seen)))
    if sum(len(document.compared) for document in found) < fewest_lines:
        return find_compared_lines(folder, documents)
    return found


def holdout_documents(
    dataset: DatasetRecord, seen: Sequence[Path], maximum: int | None = None, seed: int = 0
) -> list[HoldoutDocument]:
    """Return the validation documents, in the order of the corpus, that no file of write_seen_text() lists.

    Documents with fingerprints above the bound of one of the files are left out, because it is unknown whether the
    model has seen them. If there are more than `maximum` documents, a random sample is drawn. The same seed draws the
    same documents from the same text.
    """
    parameters = {
        "seen": [literal(path) for path in seen],
        "below": min(map(bound_of, seen)),
        "maximum": maximum,
        "seed": str(seed),
    }
    with connect(dataset) as connection:
        rows = table(connection, "promotion/read_holdout_documents", parameters)
    return [HoldoutDocument(**row) for row in rows]


def find_compared_lines(
    folder: Path, documents: list[HoldoutDocument], seen: np.ndarray | None = None, below: str = ABOVE_ALL
) -> list[HoldoutDocument]:
    """Return the documents with lines on which models are compared, and the numbers of these lines.

    A line is compared if it is not blank, its digest does not reserve it for model selection, the models have not seen
    it, and it does not repeat an earlier line. `seen` contains the sorted digests of the seen lines, (lines,) uint64.
    It has all seen lines below the fingerprint `below`; lines above it are left out. If `seen` is None, seen and
    repeated lines are compared, too.
    """
    found: list[HoldoutDocument] = []
    earlier: set[int] = set()
    for document in documents:
        lines = read_text(folder, document).encode().removesuffix(b"\n").split(b"\n")
        digests = line_digests(lines)
        is_candidate = ~chooses(np.array(digests, np.uint64))
        if seen is not None:
            is_candidate &= ~is_in(seen, np.array(digests, np.uint64))
        compared = []
        for number in np.flatnonzero(is_candidate).tolist():
            is_new = seen is None or (digests[number] not in earlier and f"{digests[number]:016x}" < below)
            if lines[number].strip() and is_new:
                compared.append(number)
                earlier.add(digests[number])
        if compared:
            of_compared = tuple(digests[number] for number in compared)
            found.append(replace(document, compared=tuple(compared), digests=of_compared))
    return found


def is_in(ascending: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return a mask of the `numbers` that occur in `ascending`, (n,) bool."""
    places = np.searchsorted(ascending, numbers)
    found: np.ndarray = np.append(ascending, np.uint64(0))[places] == numbers
    return found & (places < len(ascending))


def is_whole_paragraph(folder: Path, document: HoldoutDocument) -> bool:
    """Return True if the document begins and ends at blank lines or at the borders of its source.

    rnnlm 0.3 and older divided longer paragraphs at other places, so only whole paragraphs have the same fingerprint.
    """
    path = inside(folder, document.source_file)
    end = document.byte_offset + document.byte_count
    of_sources = read_source_index(folder, path.stem).starts_between(document.byte_offset - 1, end + 1)
    borders = {0, path.stat().st_size, *of_sources}
    return all(place in borders or follows_blank_line(path, place) for place in (document.byte_offset, end))


def follows_blank_line(path: Path, place: int) -> bool:
    with path.open("rb") as stream:
        stream.seek(max(0, place - 1_024))
        before = stream.read(min(place, 1_024))
    # The last element is empty, because the text before the document ends at the beginning of a line.
    lines = before.split(b"\n")
    return len(lines) > 2 and not lines[-2].strip()


def read_texts(folder: Path, documents: list[HoldoutDocument]) -> Iterator[list[tuple[HoldoutDocument, str]]]:
    """Yield the documents with their texts, about TEXT_BYTES_AT_ONCE at a time.

    Raise CorpusError if the corpus in `folder` is missing or has changed.
    """
    waiting: list[tuple[HoldoutDocument, str]] = []
    waiting_bytes = 0
    for document in documents:
        waiting.append((document, read_text(folder, document)))
        waiting_bytes += document.byte_count
        if waiting_bytes >= TEXT_BYTES_AT_ONCE:
            yield waiting
            waiting, waiting_bytes = [], 0
    if waiting:
        yield waiting


def read_text(folder: Path, document: HoldoutDocument) -> str:
    path = inside(folder, document.source_file)
    try:
        with path.open("rb") as stream:
            stream.seek(document.byte_offset)
            data = stream.read(document.byte_count)
    except OSError as error:
        raise CorpusError(
            f"{path}: the validation text cannot be read ({error.strerror}); run the pipeline again with --force corpus"
        ) from error
    if hashlib.sha256(data).hexdigest() != document.sha256:
        raise CorpusError(
            f"{path}: the {document.byte_count} bytes at {document.byte_offset} have changed since the dataset was "
            "made;\nrun the pipeline again with --force corpus"
        )
    return data.decode("utf-8")
