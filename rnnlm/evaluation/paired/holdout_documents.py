"""The documents that two models may be compared on: validation text that the training of neither has seen."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rnnlm.errors import CorpusError
from rnnlm.sequences.dataset_reader import StoredSplit, connect
from rnnlm.sequences.sql_tables import table
from rnnlm.sequences.tuning_sample import tuning_sample
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import literal, statement

TEXT_BYTES_AT_ONCE = 1 << 20  # scored together: one loss per token for each of two models
KEPT_FINGERPRINTS = 2_000_000  # with a registered version: 14 MB
FEW_DOCUMENTS = 200  # fewer are cut into blocks of lines
ABOVE_ALL = "g"  # follows every hexadecimal digit
BOUND = b"below"  # in a file's metadata: it has all fingerprints below this one, and no other


@dataclass(frozen=True)
class HoldoutDocument:
    """A document of the corpus: a paragraph, or 50 lines if there are no paragraphs."""

    document_id: int
    source_file: str  # within the corpus folder
    byte_offset: int
    byte_count: int
    sha256: str  # hexadecimal


def write_known_digests(
    dataset: DatasetRecord, evaluation_tokens: int | None, path: Path, ancestors: Path | None = None
) -> int:
    """Write a Parquet file with the distinct fingerprints of the documents that training has seen; return their number.

    These are the training split and the part of the validation split that the checkpoint and the temperature were
    chosen on (training.validation.tokens). The file is kept with a registered version, whose dataset may be gone when
    it is compared. Fingerprints do not change with cleaning. Their first 16 hexadecimal digits are kept: of 100 million
    documents, one in 10 million compared with 10,000 others is mistaken. ancestors: such a file of the model that
    training started from, whose documents have been seen too.

    Of a corpus with more than KEPT_FINGERPRINTS documents, only fingerprints below a bound are kept, and models are
    compared on documents below it: a theta sketch (Dasgupta et al. 2016, https://arxiv.org/abs/1510.01455). The number
    is then an estimate.
    """
    sample = tuning_sample(StoredSplit(dataset, "valid"), evaluation_tokens)
    sample.close()
    below = bound_of(ancestors) if ancestors else ABOVE_ALL
    with connect(dataset) as connection:

        def tokens_before(row: int) -> int:
            (found,) = table(connection, "queries/measure_tokens_before", {"split": "valid", "row": row})
            return int(found["tokens"])

        [(documents,)] = connection.execute(statement("promotion/count_documents")).fetchall()
        if documents > KEPT_FINGERPRINTS:
            below = min(below, f"{2**64 * KEPT_FINGERPRINTS // documents:016x}")
        parameters = {
            "firsts": [tokens_before(first) for first, _ in sample.ranges],
            "lasts": [tokens_before(last) for _, last in sample.ranges],
            "below": below,
        }
        digests = connection.sql(statement("promotion/read_known_digests"), params=parameters).to_arrow_table()
    if ancestors is not None:
        seen = pc.utf8_slice_codeunits(pq.read_table(ancestors, schema=digests.schema)["sha256"], 0, 16)
        both = pa.concat_tables([digests, pa.table({"sha256": seen.filter(pc.less(seen, below))})])
        digests = both.group_by("sha256").aggregate([]).sort_by("sha256")
    # Sorted digests share their beginnings: this encoding takes 7 bytes for each.
    pq.write_table(
        digests.replace_schema_metadata({BOUND: below}),
        path,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"sha256": "DELTA_BYTE_ARRAY"},
    )
    return len(digests) if below == ABOVE_ALL else round(len(digests) * 2**64 / int(below, 16))


def bound_of(path: Path) -> str:
    """The file has all fingerprints below this one."""
    return (pq.read_schema(path).metadata or {}).get(BOUND, ABOVE_ALL.encode()).decode()


def holdout_documents(
    dataset: DatasetRecord, known_digests: list[Path], maximum: int | None = None, seed: int = 0
) -> list[HoldoutDocument]:
    """The dataset's validation documents, in the corpus's order, that are in none of the files of write_known_digests.

    Documents above the bound of one of the files are left out: it is unknown whether they were seen. If there are
    more than `maximum`, a random sample is drawn. The same seed draws the same documents from the same text.
    """
    parameters = {
        "known_digests": [literal(path) for path in known_digests],
        "below": min(map(bound_of, known_digests)),
        "maximum": maximum,
        "seed": str(seed),
    }
    with connect(dataset) as connection:
        rows = table(connection, "promotion/read_holdout_documents", parameters)
    return [HoldoutDocument(**row) for row in rows]


def cut_into_blocks(folder: Path, documents: list[HoldoutDocument]) -> list[HoldoutDocument]:
    """Blocks of whole consecutive lines, of about equal size: FEW_DOCUMENTS of them, if there are so many lines.

    With few documents, their difference between two models says little: there are too few to measure its spread.
    """
    total = sum(document.byte_count for document in documents)
    blocks: list[HoldoutDocument] = []
    for document in documents:
        offset, waiting = document.byte_offset, b""
        lines = read_text(folder, document).encode("utf-8").splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            waiting += line
            if len(waiting) * FEW_DOCUMENTS >= total or number == len(lines):
                digest = hashlib.sha256(waiting).hexdigest()
                blocks.append(HoldoutDocument(len(blocks), document.source_file, offset, len(waiting), digest))
                offset, waiting = offset + len(waiting), b""
    return blocks


def read_texts(folder: Path, documents: list[HoldoutDocument]) -> Iterator[list[tuple[HoldoutDocument, str]]]:
    """The documents with their text, about TEXT_BYTES_AT_ONCE at a time.

    CorpusError if the corpus in `folder` is gone or has changed.
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
