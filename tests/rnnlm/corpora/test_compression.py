"""A malicious or damaged archive raises an error of one line, and leaves no file.

The error names the archive, the member and, if one is exceeded, the limit.
"""

import io
import lzma
import stat
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.compression import zstd
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, parquet_of, regular, special, tar_of, tar_of_infos, zip_of

MEBIBYTE = 1 << 20
TEXT = b"the cat sees the dog .\n"
LINES = b"".join(b"line %d\n" % number for number in range(5000))
ZEROS = (b"a" * 99 + b"\n") * (18 * MEBIBYTE // 100)
PACKED = [suffix for suffix in COMPRESSIONS if suffix]
gzip = COMPRESSIONS[".gz"]


def refused(home: Home, path: Path, data: bytes, message: str, **settings: object) -> str:
    """Return the error for a file with these bytes, after checking that it has one line and that no file is left."""
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=message) as caught:
        obtain_corpus(home, CorpusConfig.model_validate({"source": str(path)} | settings))
    assert path.name in str(caught.value)
    assert [found for found in home.root.parent.rglob("*") if found.is_file() and ".lock" not in found.name] == [path]
    path.unlink()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def zip_with(name: str, mode: int, content: bytes) -> bytes:
    """Return a zip archive with a text and a second member, whose type `mode` determines."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("train.txt", TEXT)
        info = zipfile.ZipInfo(name)
        info.external_attr = (mode | 0o777) << 16
        archive.writestr(info, content)
    return out.getvalue()


def tar_with(name: str, kind: bytes, target: str = "") -> bytes:
    """Return a tar archive with a text and a second member of another type."""
    return tar_of_infos([(regular("train.txt", TEXT), TEXT), (special(name, kind, target), b"")])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd.txt", "absolute"),
        ("\\windows\\a.txt", "absolute"),
        ("C:\\a.txt", "absolute"),
        ("../a.txt", r"\.\."),
        ("in/../../a.txt", r"\.\."),
        ("in\\..\\..\\a.txt", r"\.\."),
        ("../a\n\x1b[31m.txt", r"\.\./a\?\?\[31m\.txt"),  # Control characters in a name are replaced in the message.
    ],
)
def test_a_member_that_would_leave_the_archive_is_refused(home: Home, tmp_path: Path, name: str, reason: str) -> None:
    members = {"train.txt": TEXT, name: TEXT}
    refused(home, tmp_path / "a.tar.gz", gzip(tar_of(members)), reason)
    refused(home, tmp_path / "a.zip", zip_of(members), reason)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (tar_with("in/link.txt", tarfile.SYMTYPE, "/etc/passwd"), "leaves the archive"),
        (tar_with("in/link.txt", tarfile.SYMTYPE, "../../b.txt"), "leaves the archive"),
        (tar_with("in/link.txt", tarfile.LNKTYPE, "../b.txt"), "leaves the archive"),
        (tar_with("in/link.txt", tarfile.LNKTYPE, "/etc/passwd"), "leaves the archive"),
        (tar_with("in/link.txt", tarfile.CHRTYPE), "device"),
        (tar_with("in/link.txt", tarfile.BLKTYPE), "device"),
        (tar_with("in/link.txt", tarfile.FIFOTYPE), "pipe"),
        (zip_with("in/link.txt", stat.S_IFLNK, b"../../etc/passwd"), "leaves the archive"),
        (zip_with("in/link.txt", stat.S_IFLNK, b"/etc/passwd"), "leaves the archive"),
        (zip_with("in/link.txt", stat.S_IFIFO, b""), "pipe"),
        (zip_with("in/link.txt", stat.S_IFCHR, b""), "device"),
    ],
)
def test_links_out_of_an_archive_and_devices_are_refused(home: Home, tmp_path: Path, data: bytes, reason: str) -> None:
    assert "in/link.txt" in refused(home, tmp_path / "a", data, reason)


@pytest.mark.parametrize(
    "data",
    [
        tar_with("in/link.txt", tarfile.SYMTYPE, "../train.txt"),
        zip_with("in/link.txt", stat.S_IFLNK, b"../train.txt"),
    ],
)
def test_links_within_an_archive_are_skipped(home: Home, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a")))
    assert (corpus.folder / "train.txt").read_bytes() == TEXT


def test_an_encrypted_zip_is_refused(home: Home, tmp_path: Path) -> None:
    data = bytearray(zip_of({"train.txt": TEXT}))
    # The flag of encryption is set in the directory, and then in the member's own header.
    data[data.index(b"PK\x01\x02") + 8] |= 1
    data[6] |= 1
    refused(home, tmp_path / "a.zip", bytes(data), "train.txt: is encrypted")


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_too_many_members_are_refused(home: Home, tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    data = pack({f"{number}.txt": TEXT for number in range(6)})
    refused(home, tmp_path / "a", data, "more than 5 members", maximum_archive_members=5)
    (tmp_path / "a").write_bytes(data)
    obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a"), maximum_archive_members=6))


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".gz", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in PACKED[1:])])
def test_a_bomb_is_refused_while_it_unpacks(home: Home, tmp_path: Path, suffix: str) -> None:
    pack = COMPRESSIONS[suffix]
    for name, data in (
        (f"a.txt{suffix}", pack(ZEROS)),
        (f"a.tar{suffix}", pack(tar_of({"a.txt": ZEROS}))),
        # The picture is skipped, but it must be unpacked in order to reach the text.
        (f"b.tar{suffix}", pack(tar_of({"picture.png": ZEROS, "a.txt": TEXT}))),
        ("a.tar", tar_of({f"a.txt{suffix}": pack(ZEROS)})),
        ("a.zip", zip_of({f"a.txt{suffix}": pack(ZEROS)}, zipfile.ZIP_STORED)),
    ):
        refused(home, tmp_path / name, data, r"unpacks to more than 50 times", maximum_unpacking_ratio=50)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, pytest.param(zipfile.ZIP_LZMA, marks=pytest.mark.slow)]
)
def test_a_zip_bomb_is_refused_by_ratio_and_by_size(home: Home, tmp_path: Path, method: int) -> None:
    data = zip_of({"a.txt": ZEROS}, method)
    refused(home, tmp_path / "a.zip", data, "a.txt: unpacks to more than 200 times")
    refused(home, tmp_path / "a.zip", data, "more than 1,000 bytes", maximum_unpacked_bytes=1000)


def test_a_sparse_member_counts_with_all_its_zeros(home: Home, tmp_path: Path) -> None:
    """A sparse member of a few bytes is refused because of its unpacked size.

    GNU tar stores the holes of a file as numbers, so such a member may have any unpacked size.
    """
    header = bytearray(special("a.txt", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    # The member consists of one empty piece, which is at the member's end.
    header[386:410] = b"%011o\0" % (64 * MEBIBYTE) + b"%011o\0" % 0
    header[483:495] = b"%011o\0" % (64 * MEBIBYTE)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "a.tar"
    path.write_bytes(bytes(header) + bytes(1024))
    with pytest.raises(CorpusError, match=r"a\.txt.*(times its size|NUL)"):
        obtain_corpus(home, CorpusConfig(source=str(path)))


def test_a_short_text_may_shrink_a_lot(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip(b"a\n" * (4 * MEBIBYTE)))
    assert obtain_corpus(home, CorpusConfig(source=str(path))).corpus_bytes == 8 * MEBIBYTE


@pytest.mark.parametrize("suffix", PACKED)
def test_damaged_compressed_files_are_refused(home: Home, tmp_path: Path, suffix: str) -> None:
    whole = COMPRESSIONS[suffix](LINES)
    middle = len(whole) // 2
    path = tmp_path / f"a.txt{suffix}"
    for data in (whole[:-3], whole[:middle], whole[:middle] + b"\x00\xff" * 20 + whole[middle + 40 :]):
        path.write_bytes(data)
        # Another error may come first, because bzip2 returns the beginning of a block before it checks the block's
        # checksum.
        with pytest.raises(CorpusError, match="damaged or truncated|NUL|not utf-8"):
            obtain_corpus(home, CorpusConfig(source=str(path)))


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_damaged_tars_are_refused(home: Home, tmp_path: Path, suffix: str) -> None:
    members = tar_of({"train.txt": TEXT * 40, "test.txt": TEXT})
    second = members.index(b"test.txt")
    wrong_header = members[:second] + b"rest.txt" + members[second + 8 :]  # The checksum of this header is wrong.
    for inner in (members[:100], members[:700], members[:second], members[: second + 100], wrong_header):
        refused(home, tmp_path / f"a.tar{suffix}", COMPRESSIONS[suffix](inner), "damaged or truncated tar")


@pytest.mark.parametrize(
    ("kind", "size", "reason"),
    [
        # Without a limit, tarfile would read this header into memory.
        (tarfile.XHDTYPE, 2 * MEBIBYTE, "a header of 2,097,152 bytes"),
        (tarfile.GNUTYPE_LONGNAME, 2 * MEBIBYTE, "a header of 2,097,152 bytes"),
        (tarfile.REGTYPE, -512, "negative size"),
    ],
)
def test_tar_headers_with_impossible_sizes_are_refused(
    home: Home, tmp_path: Path, kind: bytes, size: int, reason: str
) -> None:
    header = special("long", kind)
    header.size = size
    data = header.tobuf(tarfile.GNU_FORMAT) + b"x" * max(0, size) + tar_of({"a.txt": TEXT})
    refused(home, tmp_path / "a.tar", data, reason)


def test_damaged_zips_are_refused(home: Home, tmp_path: Path) -> None:
    whole = zip_of({"train.txt": LINES}, zipfile.ZIP_STORED)
    for data in (whole[:-30], whole[:200], whole.replace(b"line 77\n", b"line 78\n")):
        refused(home, tmp_path / "a.zip", data, "damaged or truncated zip")


def test_archives_inside_archives_are_not_opened(home: Home, tmp_path: Path) -> None:
    inner = tar_of({"train.txt": TEXT})
    for name in ("inner.tar", "inner.tar.gz", "inner.zip"):
        refused(home, tmp_path / "a.zip", zip_of({name: inner}), "has archives but no text; unpack it")
    refused(home, tmp_path / "a.zip", zip_of({"hidden.txt": inner}), "archive inside an archive")
    (tmp_path / "a.zip").write_bytes(zip_of({"inner.tar": inner, "a.txt": TEXT}))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.zip")))
    assert (corpus.folder / "text.txt").read_bytes() == TEXT


def test_a_file_that_is_compressed_twice_is_refused(home: Home, tmp_path: Path) -> None:
    refused(home, tmp_path / "a.txt.gz", gzip(gzip(TEXT)), "compressed twice")
    refused(home, tmp_path / "a.txt.gz", gzip(zip_of({"a.txt": TEXT})), "a zip inside a compressed file")


@pytest.mark.long
def test_a_parquet_that_repeats_one_large_cell_is_a_bomb(home: Home, tmp_path: Path) -> None:
    data = parquet_of(["a" * MEBIBYTE] * 40)
    assert len(data) < MEBIBYTE // 5
    refused(home, tmp_path / "a.parquet", data, "unpacks to more than 100 times", maximum_unpacking_ratio=100)
    refused(home, tmp_path / "a.zip", zip_of({"a.parquet": data}), "a.parquet: unpacks to more than 200 times")


def zstd_with(**options: int) -> bytes:
    """Return the lines as a zstd stream without their size in the header, so a reader needs the whole window."""
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter[name]: value for name, value in options.items()})
    return packer.compress(LINES[:1000]) + packer.compress(LINES[1000:]) + packer.flush()


def skippable(size: int) -> bytes:
    return b"\x5a\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size)


ZST, XZ, BZ2 = (COMPRESSIONS[suffix] for suffix in (".zst", ".xz", ".bz2"))
HALVES = LINES[:20_000], LINES[20_000:]
WHOLE = {  # Valid compressed streams of the lines.
    "long-window.zst": zstd_with(window_log=30, enable_long_distance_matching=1),
    "longest-window.zst": zstd_with(window_log=31),
    "two-frames.zst": ZST(HALVES[0]) + ZST(HALVES[1]),
    "skipped-first.zst": skippable(4) + ZST(LINES),  # pzstd writes such streams.
    "skipped-between.zst": ZST(HALVES[0]) + skippable(9) + ZST(HALVES[1]) + skippable(0),
    "padded.xz": XZ(HALVES[0]) + bytes(4) + XZ(HALVES[1]) + bytes(8),
    "two.bz2": BZ2(HALVES[0]) + BZ2(HALVES[1]),
    "padded.gz": gzip(HALVES[0]) + bytes(7) + gzip(HALVES[1]),
    "crc64.xz": lzma.compress(LINES, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME),
    "a.lzma": lzma.compress(LINES, format=lzma.FORMAT_ALONE),
}


@pytest.mark.parametrize("name", WHOLE)
def test_every_valid_stream_is_read_to_its_end(home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / f"a.txt.{name}").write_bytes(WHOLE[name])
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / f"a.txt.{name}")))
    assert (corpus.folder / "text.txt").read_bytes() == LINES


@pytest.mark.parametrize("name", WHOLE)
def test_a_stream_that_is_cut_off_or_followed_by_others_is_refused(home: Home, tmp_path: Path, name: str) -> None:
    refused(home, tmp_path / "a.txt", WHOLE[name][: len(WHOLE[name]) // 2], "damaged or truncated")
    refused(home, tmp_path / "a.txt", WHOLE[name] + b"\0 and something else", "damaged or truncated")


def test_what_is_intact_but_not_read_is_not_called_damaged(home: Home, tmp_path: Path) -> None:
    packed = bytearray(zip_of({"a.txt": TEXT}))
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = packed.index(mark) + place
        # The number of the compression method Deflate64, which Python does not support.
        packed[start : start + 2] = (9).to_bytes(2, "little")
    message = refused(home, tmp_path / "a.zip", bytes(packed), "this variant of zip cannot be read")
    assert "damaged" not in message


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_a_dictionary_counts_as_often_as_its_text_is_repeated(home: Home, tmp_path: Path, kind: pa.DataType) -> None:
    """A dictionary-encoded text counts toward the size limit as often as it is repeated.

    In Arrow, a batch of rows stores the text once. As Python objects, its cells would need 256 times the memory.
    """
    words = pa.array(["the cat sees the dog . " * 4_000], pa.string()).cast(kind)
    table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([0, None] * 250, pa.int32()), words)})
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    refused(home, tmp_path / "a.parquet", stream.getvalue(), "unpacks to more than 200 times")
    few = io.BytesIO()
    pq.write_table(table.slice(0, 4), few, compression="zstd")
    source = tmp_path / "few.parquet"
    source.write_bytes(few.getvalue())
    corpus = obtain_corpus(home, CorpusConfig(source=str(source)))
    # Each sentence has five words and the full stop.
    assert len((corpus.folder / "text.txt").read_text().split()) == 2 * 4_000 * 6
