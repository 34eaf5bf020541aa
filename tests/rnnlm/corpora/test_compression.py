"""Archives that mean harm, or are damaged: one line that names archive, member and limit, and no file left."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.home import Home
from tests.rnnlm.corpora.packing import COMPRESSIONS, parquet_of, regular, special, tar_of, tar_of_infos, zip_of

MEBIBYTE = 1 << 20
TEXT = b"the cat sees the dog .\n"
PACKED = [suffix for suffix in COMPRESSIONS if suffix]


def refused(home: Home, path: Path, data: bytes, message: str, **settings: object) -> str:
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=message) as caught:
        obtain_corpus(home, CorpusConfig.model_validate({"source": str(path)} | settings))
    assert path.name in str(caught.value)
    assert [path for path in home.root.parent.rglob("*") if path.is_file() and ".lock" not in path.name] == [path]
    return str(caught.value)


def one_line(message: str) -> None:
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd.txt", "absolute"),
        ("\\windows\\a.txt", "absolute"),
        ("C:\\a.txt", "absolute"),
        ("../a.txt", r"\.\."),
        ("in/../../a.txt", r"\.\."),
        ("in\\..\\..\\a.txt", r"\.\."),
    ],
)
def test_a_member_that_would_leave_the_archive_is_refused(home: Home, tmp_path: Path, name: str, reason: str) -> None:
    members = {"train.txt": TEXT, name: TEXT}
    for file_name, data in (("a.tar", tar_of(members)), ("a.tar.gz", COMPRESSIONS[".gz"](tar_of(members)))):
        one_line(refused(home, tmp_path / file_name, data, reason))
        (tmp_path / file_name).unlink()
    one_line(refused(home, tmp_path / "a.zip", zip_of(members), reason))


@pytest.mark.parametrize(
    ("kind", "target", "reason"),
    [
        (tarfile.SYMTYPE, "/etc/passwd", "leaves the archive"),
        (tarfile.SYMTYPE, "../../b.txt", "leaves the archive"),
        (tarfile.LNKTYPE, "../b.txt", "leaves the archive"),
        (tarfile.LNKTYPE, "/etc/passwd", "leaves the archive"),
        (tarfile.CHRTYPE, "", "device"),
        (tarfile.BLKTYPE, "", "device"),
        (tarfile.FIFOTYPE, "", "pipe"),
    ],
)
def test_links_out_of_a_tar_and_devices_are_refused(
    home: Home, tmp_path: Path, kind: bytes, target: str, reason: str
) -> None:
    data = tar_of_infos([(regular("train.txt", TEXT), TEXT), (special("in/link.txt", kind, target), b"")])
    message = refused(home, tmp_path / "a.tar", data, reason)
    one_line(message)
    assert "in/link.txt" in message


def test_links_within_a_tar_are_passed_over(home: Home, tmp_path: Path) -> None:
    link = special("in/link.txt", tarfile.SYMTYPE, "../train.txt")
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of_infos([(regular("train.txt", TEXT), TEXT), (link, b"")]))
    corpus = obtain_corpus(home, CorpusConfig(source=str(path)))
    assert (corpus.folder / "train.txt").read_bytes() == TEXT


@pytest.mark.parametrize(
    ("mode", "content", "reason"),
    [
        (stat.S_IFLNK, b"../../etc/passwd", "leaves the archive"),
        (stat.S_IFLNK, b"/etc/passwd", "leaves the archive"),
        (stat.S_IFIFO, b"", "pipe"),
        (stat.S_IFCHR, b"", "device"),
    ],
)
def test_links_out_of_a_zip_and_devices_are_refused(
    home: Home, tmp_path: Path, mode: int, content: bytes, reason: str
) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("train.txt", TEXT)
        info = zipfile.ZipInfo("link.txt")
        info.external_attr = (mode | 0o777) << 16
        archive.writestr(info, content)
    one_line(refused(home, tmp_path / "a.zip", out.getvalue(), reason))


def test_an_encrypted_zip_is_refused(home: Home, tmp_path: Path) -> None:
    data = bytearray(zip_of({"train.txt": TEXT}))
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory, and in the member's own header
    data[6] |= 1
    one_line(refused(home, tmp_path / "a.zip", bytes(data), "train.txt: is encrypted"))


def test_too_many_members_are_refused(home: Home, tmp_path: Path) -> None:
    members = {f"{number}.txt": TEXT for number in range(6)}
    for name, data in (("a.tar", tar_of(members)), ("a.zip", zip_of(members))):
        message = refused(home, tmp_path / name, data, "more than 5 members", maximum_archive_members=5)
        one_line(message)
        (tmp_path / name).unlink()
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.tar"), maximum_archive_members=6))


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".gz", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in PACKED[1:])])
def test_a_bomb_is_refused_while_it_unpacks(home: Home, tmp_path: Path, suffix: str) -> None:
    zeros = (b"a" * 99 + b"\n") * (18 * MEBIBYTE // 100)
    pack = COMPRESSIONS[suffix]
    for name, data in (
        (f"a.txt{suffix}", pack(zeros)),
        (f"a.tar{suffix}", pack(tar_of({"a.txt": zeros}))),
        (f"b.tar{suffix}", pack(tar_of({"picture.png": zeros, "a.txt": TEXT}))),  # passed over, yet unpacked
        ("a.tar", tar_of({f"a.txt{suffix}": pack(zeros)})),
        ("a.zip", zip_of({f"a.txt{suffix}": pack(zeros)}, zipfile.ZIP_STORED)),
    ):
        one_line(refused(home, tmp_path / name, data, r"unpacks to more than 50 times", maximum_unpacking_ratio=50))
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, pytest.param(zipfile.ZIP_LZMA, marks=pytest.mark.slow)]
)
def test_a_zip_bomb_is_refused_by_ratio_and_by_size(home: Home, tmp_path: Path, method: int) -> None:
    data = zip_of({"a.txt": (b"a" * 99 + b"\n") * (18 * MEBIBYTE // 100)}, method)
    message = refused(home, tmp_path / "a.zip", data, "a.txt: unpacks to more than 200 times")
    one_line(message)
    message = refused(home, tmp_path / "a.zip", data, "more than 1,000 bytes", maximum_unpacked_bytes=1000)
    one_line(message)


def test_a_sparse_member_counts_with_all_its_zeros(home: Home, tmp_path: Path) -> None:
    """A member of a few bytes may claim to be large: GNU tar keeps holes as numbers."""
    info = special("a.txt", tarfile.GNUTYPE_SPARSE)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    size = b"%011o\0" % (64 * MEBIBYTE)
    header[386:410] = b"%011o\0" % (64 * MEBIBYTE) + b"%011o\0" % 0  # one piece of no bytes, at the end
    header[483:495] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    message = refused(home, tmp_path / "a.tar", bytes(header) + bytes(1024), "times its size|NUL")
    assert "a.txt" in message


def test_the_sizes_of_all_files_of_a_source_are_added(home: Home, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt.gz").write_bytes(COMPRESSIONS[".gz"](TEXT * 10))
    obtain_corpus(home, CorpusConfig(source=str(tmp_path / "*.gz"), maximum_unpacked_bytes=30 * len(TEXT)))
    with pytest.raises(CorpusError, match=r"2\.txt\.gz: unpacks to more"):
        obtain_corpus(
            home, CorpusConfig(source=str(tmp_path / "*.gz"), maximum_unpacked_bytes=29 * len(TEXT), lowercase=True)
        )


def test_a_short_text_may_shrink_a_lot(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(COMPRESSIONS[".gz"](b"a\n" * (4 * MEBIBYTE)))
    assert obtain_corpus(home, CorpusConfig(source=str(path))).corpus_bytes == 8 * MEBIBYTE


@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_file_that_is_cut_off_or_damaged_is_refused(home: Home, tmp_path: Path, suffix: str) -> None:
    whole = COMPRESSIONS[suffix](b"".join(b"line %d\n" % number for number in range(5000)))
    middle = len(whole) // 2
    for data in (whole[:-3], whole[:middle], whole[:middle] + b"\x00\xff" * 20 + whole[middle + 40 :]):
        # bzip2 gives what it has of a block before it finds the block's checksum wrong
        refused(home, tmp_path / f"a.txt{suffix}", data, "damaged or truncated|NUL|not utf-8")


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_tar_that_is_cut_off_or_damaged_is_refused(home: Home, tmp_path: Path, suffix: str) -> None:
    members = tar_of({"train.txt": TEXT * 40, "test.txt": TEXT})
    second = members.index(b"test.txt")
    wrong_header = members[:second] + b"rest.txt" + members[second + 8 :]  # its checksum fails
    for inner in (members[:100], members[:700], members[:second], members[: second + 100], wrong_header):
        data = COMPRESSIONS[suffix](inner)
        one_line(refused(home, tmp_path / f"a.tar{suffix}", data, "damaged or truncated tar"))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_would_fill_the_memory_are_refused(home: Home, tmp_path: Path, kind: bytes) -> None:
    header = special("long", kind)
    header.size = 2 * MEBIBYTE
    data = header.tobuf(tarfile.GNU_FORMAT) + b"x" * header.size + tar_of({"a.txt": TEXT})
    one_line(refused(home, tmp_path / "a.tar", data, r"a header of 2,097,152 bytes"))


def test_a_member_of_negative_size_is_refused(home: Home, tmp_path: Path) -> None:
    header = special("a.txt", tarfile.REGTYPE)
    header.size = -512
    data = header.tobuf(tarfile.GNU_FORMAT) + tar_of({"a.txt": TEXT})
    one_line(refused(home, tmp_path / "a.tar", data, "negative size"))


def test_a_zip_that_is_cut_off_or_damaged_is_refused(home: Home, tmp_path: Path) -> None:
    whole = zip_of({"train.txt": b"".join(b"line %d\n" % number for number in range(5000))}, zipfile.ZIP_STORED)
    for data in (whole[:-30], whole[:200], whole.replace(b"line 77\n", b"line 78\n")):
        one_line(refused(home, tmp_path / "a.zip", data, "damaged or truncated zip"))


def test_archives_inside_archives_are_not_opened(home: Home, tmp_path: Path) -> None:
    inner = tar_of({"train.txt": TEXT})
    for name in ("inner.tar", "inner.tar.gz", "inner.zip"):
        one_line(refused(home, tmp_path / "a.zip", zip_of({name: inner}), "archives inside archives"))
    one_line(refused(home, tmp_path / "a.zip", zip_of({"hidden.txt": inner}), "archive inside an archive"))
    (tmp_path / "a.zip").write_bytes(zip_of({"inner.tar": inner, "a.txt": TEXT}))
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "a.zip")))
    assert (corpus.folder / "text.txt").read_bytes() == TEXT


def test_what_is_compressed_twice_is_refused(home: Home, tmp_path: Path) -> None:
    pack = COMPRESSIONS[".gz"]
    one_line(refused(home, tmp_path / "a.txt.gz", pack(pack(TEXT)), "compressed twice"))
    one_line(refused(home, tmp_path / "a.txt.gz", pack(zip_of({"a.txt": TEXT})), "compressed zip"))


def test_a_stranger_s_names_stay_on_their_line(home: Home, tmp_path: Path) -> None:
    message = refused(home, tmp_path / "a.zip", zip_of({"../a\n\x1b[31m.txt": TEXT}), r"\.\.")
    one_line(message)
    assert "\x1b" not in message


@pytest.mark.long
def test_a_parquet_that_repeats_one_large_cell_is_a_bomb(home: Home, tmp_path: Path) -> None:
    data = parquet_of(["a" * MEBIBYTE] * 40)
    assert len(data) < MEBIBYTE // 5
    one_line(refused(home, tmp_path / "a.parquet", data, "unpacks to more than 100 times", maximum_unpacking_ratio=100))
    (tmp_path / "a.parquet").unlink()
    one_line(
        refused(home, tmp_path / "a.zip", zip_of({"a.parquet": data}), "a.parquet: unpacks to more than 200 times")
    )
