"""A source that cannot be read is refused before Prefect is started."""

from pathlib import Path

import pytest

from flows.command_line import main
from rnnlm.config import CorpusConfig
from rnnlm.corpora import preflight
from rnnlm.corpora.download import check_source
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, csv_of, tar_of, zip_of

BAD = b"caf\xe9\n"


@pytest.mark.parametrize(
    ("name", "data", "settings", "message"),
    [
        ("a.txt", BAD, {}, "byte 3 is not utf-8"),
        ("a.zip", zip_of({"one.txt": b"one\n", "two.txt": BAD}), {}, r"a\.zip: two\.txt: byte 3 is not utf-8"),
        ("a.tar.gz", COMPRESSIONS[".gz"](tar_of({"one.txt": BAD})), {}, "byte 3 is not utf-8"),
        ("a.zip", zip_of({"a.png": b"\x89PNG"}), {}, "has no text"),
        ("a.zip", zip_of({"valid.txt": b"a\n"}), {}, "none for train"),
        ("a.csv", csv_of(["one"]), {"column": "body"}, "has no column 'body'"),
        ("a.txt", b" \n", {}, "is empty"),
        ("a.parquet", b"PAR1\x15 and no more", {}, "Parquet"),
    ],
)
def test_check_source_refuses_what_cannot_be_read(
    tmp_path: Path, name: str, data: bytes, settings: dict[str, object], message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=message):
        check_source(CorpusConfig.model_validate({"source": str(tmp_path / name), "undecodable": "refuse"} | settings))


def test_nothing_is_started_for_an_unreadable_source(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of({"one.txt": BAD}))
    assert main(["run", "--corpus", str(tmp_path / "a.zip"), "--set", "corpus.undecodable=refuse"]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 3
    assert not (home.prefect / "prefect.db").exists()


def test_only_the_beginning_of_a_large_source_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "LOOK_BYTES", 1_000)
    (tmp_path / "late.txt").write_bytes(b"a line\n" * 300_000 + BAD)
    check_source(CorpusConfig(source=str(tmp_path / "late.txt")))
    (tmp_path / "large.tar").write_bytes(tar_of({"one.txt": BAD}))
    check_source(CorpusConfig(source=str(tmp_path / "large.tar")))
    (tmp_path / "early.txt").write_bytes(BAD + b"a line\n" * 1_000)
    with pytest.raises(CorpusError, match="byte 3"):
        check_source(CorpusConfig(source=str(tmp_path / "early.txt"), undecodable="refuse"))
