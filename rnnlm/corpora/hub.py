"""Data sets that are streamed from the Hugging Face hub, `hf:owner/name[:config]`, or from a folder, `hf:FOLDER`.

The texts of a data set are stored in a Parquet file, so that other settings do not require another download.
"""

import contextlib
import itertools
import logging
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import CorpusConfig
from rnnlm.corpora.printable_names import printable, shortened
from rnnlm.corpora.source_names import HubName, hub_name
from rnnlm.corpora.split_names import check_roles, split_named
from rnnlm.corpora.table_cells import NoColumnError, Row, column_texts
from rnnlm.corpora.text_encoding import Decoding
from rnnlm.corpora.text_writer import CorpusWriter
from rnnlm.errors import CorpusError, FetchError, HomeError, RnnlmError
from rnnlm.runtime.proxies import SOCKS_OF_HTTPX, proxy_problem
from rnnlm.storage.home import atomic_file

HUB_ROWS_AT_ONCE = 1000
logger = logging.getLogger(__name__)
REVISION_SECONDS = 30.0  # The timeout of requests to the hub, in seconds.
LOOK_SECONDS = 5.0  # The timeout in seconds of the check before a run.
NETWORK_LIBRARIES = {"aiohttp", "httpcore", "httpx", "httpx2", "requests", "urllib3"}
TOO_MANY_REQUESTS = 429
KEPT_ROWS = pa.schema([("role", pa.string()), ("label", pa.string()), ("text", pa.string())])
# A function of a split or "text", a label and texts, which returns the texts and stores each of them as it is read.
Keep = Callable[[str, str, Iterator[str]], Iterator[str]]


def look_at_hub(source: str) -> None:
    """Raise CorpusError if the hub cannot be reached from this machine or does not have the data set.

    Errors that may be transient are ignored.
    """
    with contextlib.suppress(FetchError):
        find_revision(source, LOOK_SECONDS)


def find_revision(source: str, timeout_seconds: float = REVISION_SECONDS) -> str:
    """Return the current commit of the data set."""
    with hub_errors_explained(source):
        from huggingface_hub import HfApi

        if problem := proxy_problem(HfApi().endpoint, SOCKS_OF_HTTPX):
            raise CorpusError(f"{source}: {problem}")
        return str(HfApi().dataset_info(hub_name(source).path, timeout=timeout_seconds).sha)


def write_hub(
    source: str, config: CorpusConfig, writer: CorpusWriter, revision: str | None, kept: Path | None = None
) -> None:
    """Write the train, validation and test splits. Log a warning about other splits.

    If the file `kept` exists, the texts are read from it. Otherwise the texts are also stored in it.
    """
    if kept is not None and kept.exists():
        for split, label, texts in kept_rows(kept):
            writer.append(split, limited(texts, label, config), label, rows=True)
        return
    with keeping_rows(kept) as keep, hub_errors_explained(source):
        splits = load_splits(hub_name(source), revision)
        roles = {name: split_named(name) for name in sorted(splits)}
        if not any(roles.values()):
            raise CorpusError(
                f"{source}: has the splits {', '.join(roles)}; expected train, and optionally validation and test"
            )
        check_roles(source, roles)
        others = [name for name, role in roles.items() if role is None]
        if others:
            logger.warning("%s: only train, validation and test are read, not the splits %s", source, shortened(others))
        notes: dict[str, str] = {}  # The first note about changes to the texts of each split.
        decoding = Decoding(undecodable=config.undecodable, note=notes.setdefault)
        column = config.column or "text"
        for name, role in roles.items():
            if role is not None:
                label = f"{source}: {name}"
                rows = rows_of(splits[name], label, column)
                texts = limited(column_texts(rows, label, column, decoding), label, config)
                writer.append(role, keep(role, label, texts), label, rows=True)
        for label, what in notes.items():
            logger.warning("%s: %s", label, what)


def load_splits(name: HubName, revision: str | None) -> Any:
    from datasets import load_dataset

    for noisy in ("fsspec.local", "huggingface_hub.utils._http", "httpx"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    path = str(name.folder.resolve()) if name.folder else name.path
    return load_dataset(path, name.configuration, revision=revision, streaming=True)


def rows_of(split: Any, label: str, column: str) -> Iterator[Row]:
    there = split.column_names or list(next(iter(split), {}))
    if column not in there:
        raise NoColumnError(label, column, there)
    for batch in split.select_columns([column]).iter(batch_size=HUB_ROWS_AT_ONCE):
        yield from ((label, (cell,)) for cell in batch[column])


def limited(texts: Iterator[str], label: str, config: CorpusConfig) -> Iterator[str]:
    """Yield the texts. Raise CorpusError as soon as they exceed the configured limits of a download."""
    deadline = time.monotonic() + config.maximum_download_seconds
    byte_count = 0
    for text in texts:
        byte_count += len(text.encode("utf-8", "replace"))
        if byte_count > config.maximum_download_bytes:
            raise CorpusError(
                f"{label}: has more than {config.maximum_download_bytes:,} bytes of text;\n"
                "raise corpus.maximum_download_bytes to use this data set"
            )
        if time.monotonic() > deadline:
            raise FetchError(
                f"{label}: the download took more than {config.maximum_download_seconds:,.0f} s;\n"
                "run again, or raise corpus.maximum_download_seconds"
            )
        yield text


@contextlib.contextmanager
def hub_errors_explained(source: str) -> Iterator[None]:
    """Raise FetchError or CorpusError in place of the many errors that `datasets` and `huggingface_hub` raise.

    FetchError means that a later attempt may succeed.
    """
    try:
        yield
    except RnnlmError:
        raise
    except Exception as error:
        # Errors are compared by name, because importing `datasets` takes seconds.
        names = {kind.__name__ for kind in type(error).__mro__}
        reason = f"({type(error).__name__}: {printable(str(error).partition(chr(10))[0])})"
        if names & {"DatasetNotFoundError", "RepositoryNotFoundError"}:
            what = "no such data set on the hub, or it is private; check its name"
        elif is_unreachable(error):
            what = "the hub cannot be reached from here; check the network, or give the text as a file"
        elif is_transient(error):
            what = "the hub is unavailable; check the network, or give the text as a file"
            raise FetchError(f"{source}: {what}\n{reason}") from error
        else:
            what = "cannot be loaded as a data set; check its name and config (hf:owner/name:config)"
        raise CorpusError(f"{source}: {what}\n{reason}") from error


def is_unreachable(error: BaseException | None) -> bool:
    """Return True if a host has no address or refuses connections, or if offline mode is on.

    In these cases, a later attempt would fail, too.
    """
    from huggingface_hub.errors import OfflineModeIsEnabled

    while error is not None:
        if isinstance(error, socket.gaierror | ConnectionRefusedError | OfflineModeIsEnabled):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_transient(error: Exception) -> bool:
    """Return True if the network or the hub failed.

    Return False if the hub refuses the request, for instance because of a wrong token.
    """
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", 0)
    is_network = isinstance(error, ConnectionError | TimeoutError) or bool(packages & NETWORK_LIBRARIES)
    return is_network and (status == TOO_MANY_REQUESTS or not 400 <= status < 500)


@contextlib.contextmanager
def keeping_rows(path: Path | None) -> Iterator[Keep]:
    """Yield a function that stores every text that is read in the file `path`.

    The file appears when the context ends without an error. If `path` is None, nothing is stored.
    """
    if path is None:
        yield lambda role, label, texts: texts
        return
    with atomic_file(path) as partial, pq.ParquetWriter(partial, KEPT_ROWS, compression="zstd") as file:

        def keep(role: str, label: str, texts: Iterator[str]) -> Iterator[str]:
            while batch := list(itertools.islice(texts, HUB_ROWS_AT_ONCE)):
                try:
                    file.write_table(pa.table([[role] * len(batch), [label] * len(batch), batch], schema=KEPT_ROWS))
                except OSError as error:
                    raise HomeError(f"{path}: cannot be written ({error}); free some space") from error
                yield from batch

        yield keep


def kept_rows(path: Path) -> Iterator[tuple[str, str, Iterator[str]]]:
    """Yield the split, the label and the texts for each split. Raise CorpusError if the file is damaged."""

    def rows() -> Iterator[tuple[str, str, str]]:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(HUB_ROWS_AT_ONCE):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except (OSError, pa.ArrowException) as error:
            raise CorpusError(f"{path}: is damaged ({str(error).splitlines()[0]}); delete it and run again") from error

    for (role, label), found in itertools.groupby(rows(), lambda row: row[:2]):
        yield role, label, (text for _, _, text in found)
