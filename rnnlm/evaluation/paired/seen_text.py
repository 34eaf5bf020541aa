"""The text on which a model was trained, as fingerprints of its documents and lines in a Parquet file.

The file is stored with a registered version, because the version's dataset may no longer exist at the time of a
comparison.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.sql_tables import table
from rnnlm.sequences.validation_lines import all_lines_choose
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.sql_statements import statement

KEPT_FINGERPRINTS = 2_000_000  # The largest number of fingerprints that a registered version keeps. They need 14 MB.
ABOVE_ALL = "g"  # A value greater than all fingerprints, because g follows the hexadecimal digits.
BOUND = b"below"  # The metadata key for a file's bound. The file has all fingerprints below the bound and no others.
LISTS_LINES = b"lines"  # The metadata key that is present if the file lists lines in addition to documents.
SEEN_SCHEMA = pa.schema({"sha256": pa.string(), "is_line": pa.bool_()})


def write_seen_text(dataset: DatasetRecord, path: Path, ancestors: Path | None = None) -> int:
    """Write the fingerprints of the documents and lines that a model was trained on. Return the number of documents.

    These are the documents and lines of the training split. If there are so few validation lines that all of them are
    used for model selection, the documents of the validation split are included. `ancestors` is such a file for the
    model from which training started. Its fingerprints are included, too. If `ancestors` lists no lines, because rnnlm
    0.3 or older wrote it, the new file lists no lines either.

    The fingerprint of a document depends only on its letters, which cleaning does not change. The first 16 hexadecimal
    digits are kept. The probability that one of 10,000 documents matches one of 100 million others by chance is below
    one in 10 million. The fingerprint of a line is its line_digest.

    If a corpus has more than KEPT_FINGERPRINTS documents and lines, only fingerprints below a bound are kept, and
    models are compared on text below the bound. This is a theta sketch (Dasgupta et al. 2016,
    https://arxiv.org/abs/1510.01455). The returned number is then an estimate.
    """
    below = bound_of(ancestors) if ancestors else ABOVE_ALL
    with connect(dataset) as connection:
        (size,) = table(connection, "promotion/count_seen_text", {})
        # The fraction of the training lines whose digests are listed in the dataset.
        listed = (size["highest_line_digest"] + 1) / 2**64
        if listed < 1:
            below = min(below, f"{size['highest_line_digest']:016x}")
        if (count := size["documents"] + size["training_lines"] / listed) > KEPT_FINGERPRINTS:
            below = min(below, f"{round(2**64 * KEPT_FINGERPRINTS / count):016x}")
        parameters = {"below": below, "validation_too": all_lines_choose(dataset)}
        seen = connection.sql(statement("promotion/read_seen_text"), params=parameters).to_arrow_table()
    seen = seen.cast(SEEN_SCHEMA)
    with_lines = ancestors is None or lists_lines(ancestors)
    if ancestors is not None:
        theirs = pq.read_table(ancestors)
        if not with_lines:
            seen = seen.filter(pc.invert(seen["is_line"]))
            theirs = theirs.append_column("is_line", pa.array([False] * len(theirs)))
        theirs = theirs.cast(SEEN_SCHEMA)
        theirs = theirs.set_column(0, "sha256", pc.utf8_slice_codeunits(theirs["sha256"], 0, 16))
        theirs = theirs.filter(pc.less(theirs["sha256"], below))
        both = pa.concat_tables([seen, theirs]).group_by(SEEN_SCHEMA.names).aggregate([])
        seen = both.sort_by([("is_line", "ascending"), ("sha256", "ascending")])
    # This encoding stores only the 7 bytes of a sorted digest that differ from the previous digest.
    pq.write_table(
        seen.replace_schema_metadata({BOUND: below, **({LISTS_LINES: b"listed"} if with_lines else {})}),
        path,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"sha256": "DELTA_BYTE_ARRAY"},
    )
    documents = len(seen.filter(pc.invert(seen["is_line"])))
    return documents if below == ABOVE_ALL else round(documents * 2**64 / int(below, 16))


def bound_of(path: Path) -> str:
    """Return the bound of a file of write_seen_text(). The file has all fingerprints below it."""
    return (pq.read_schema(path).metadata or {}).get(BOUND, ABOVE_ALL.encode()).decode()


def lists_lines(path: Path) -> bool:
    """Return True if a file of write_seen_text() also lists lines. Files of rnnlm 0.3 and older do not."""
    return LISTS_LINES in (pq.read_schema(path).metadata or {})


def seen_lines(paths: Sequence[Path]) -> np.ndarray:
    """Return the sorted digests, (lines,) uint64, of all lines that files of write_seen_text() list."""
    found = [np.zeros(0, np.uint64)]
    for path in filter(lists_lines, paths):
        lines = pq.read_table(path, filters=pc.field("is_line"))["sha256"].to_pylist()
        found.append(np.fromiter((int(line, 16) for line in lines), np.uint64, len(lines)))
    return np.unique(np.concatenate(found))
