"""The texts of a hub's data set in a Parquet file, so that other settings read them again and download nothing."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.errors import CorpusError, HomeError
from rnnlm.home import atomic_file

ROWS_AT_ONCE = 1_000
SCHEMA = pa.schema([("role", pa.string()), ("label", pa.string()), ("text", pa.string())])
Keep = Callable[[str, str, Iterator[str]], Iterator[str]]  # role, label, texts → the same texts, kept as they pass


@contextmanager
def keeping_rows(path: Path | None) -> Iterator[Keep]:
    """Store every text that is read. `path` exists when the block has succeeded; None: nothing is stored."""
    if path is None:
        yield lambda role, label, texts: texts
        return
    with atomic_file(path) as partial, pq.ParquetWriter(partial, SCHEMA, compression="zstd") as file:

        def keep(role: str, label: str, texts: Iterator[str]) -> Iterator[str]:
            while batch := list(itertools.islice(texts, ROWS_AT_ONCE)):
                try:
                    file.write_table(pa.table([[role] * len(batch), [label] * len(batch), batch], schema=SCHEMA))
                except OSError as error:
                    raise HomeError(f"{path}: cannot be written ({error}); free some space") from error
                yield from batch

        yield keep


def kept_rows(path: Path) -> Iterator[tuple[str, str, Iterator[str]]]:
    """Role, label and texts of each split. CorpusError if the file is damaged."""

    def rows() -> Iterator[tuple[str, str, str]]:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROWS_AT_ONCE):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except (OSError, pa.ArrowException) as error:
            raise CorpusError(f"{path}: is damaged ({str(error).splitlines()[0]}); delete it and run again") from error

    for (role, label), found in itertools.groupby(rows(), lambda row: row[:2]):
        yield role, label, (text for _, _, text in found)
