"""Compressions, archives and tables in which the tests of corpora store text."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def tar_of(members: Mapping[str, bytes]) -> bytes:
    return tar_of_infos([(regular(name, data), data) for name, data in members.items()])


def regular(name: str, data: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def tar_of_infos(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def csv_of(texts: list[str], delimiter: str = ",", column: str = "text") -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["id", column])
    writer.writerows([number, text] for number, text in enumerate(texts))
    return out.getvalue().encode()


def json_of(texts: list[str], column: str = "text") -> bytes:
    return "".join(json.dumps({"id": number, column: text}) + "\n" for number, text in enumerate(texts)).encode()


def parquet_of(texts: list[str | None], column: str = "text") -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(len(texts))), column: pa.array(texts, pa.string())}), out)
    return out.getvalue()
