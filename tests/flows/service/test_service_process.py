"""A reader of a log sees each complete line once, even after a long log was renamed."""

from pathlib import Path

from flows.service.service_process import LogReader, ServiceProcess, last_lines, log_file
from rnnlm.storage.home import Home


def test_a_reader_begins_at_the_end_and_waits_for_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("before\n")
    reader = LogReader(log)
    with log.open("a") as stream:
        stream.write("one\n\ntwo")
    assert list(reader.new_lines()) == ["one"]
    with log.open("a") as stream:
        stream.write(" halves\n")
    assert list(reader.new_lines()) == ["two halves"]
    assert list(reader.new_lines()) == []


def test_a_long_log_is_moved_away_and_its_writer_continues(home: Home) -> None:
    log = log_file(home, "a")
    service = ServiceProcess(home, "a", [], {})
    with log.open("ab") as writer:
        writer.write(b"x" * 10_000_001 + b"\n")
        writer.flush()
        reader = LogReader(log)
        service.rotate_log()
        writer.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert log.with_name("a.log.1").stat().st_size == 10_000_002
    assert list(reader.new_lines()) == ["new"]


def test_last_lines_are_without_blank_ones(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n\nthree\n\n")
    assert last_lines(log, 2) == ["two", "three"]
    assert last_lines(tmp_path / "missing.log", 2) == []
