"""history.jsonl contains each measurement exactly once, even after kills, a full disk and repeated steps."""

import json
import resource
from pathlib import Path

import pytest

from rnnlm.training.history import History, Measurement, read_measurements, read_series


def steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_repeated_step_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for first in (1, 2):
        with History(path) as history:
            for step in range(first, first + 3):
                history.write(Measurement(step, {"train_loss_nats": 1.0}))
    assert steps(path) == [1, 2, 3, 4]


def test_kind_and_attempt_distinguish_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        for _ in range(2):
            history.write(Measurement(1, {"a": 1.0}))
            history.write(Measurement(1, {"a": 1.0}, "validation"))
            history.write(Measurement(1, {"a": 2.0}, "training", 1))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["kind"], line["attempt"]) for line in lines] == [("training", 0), ("validation", 0), ("training", 1)]
    assert all(line["time_milliseconds"] > 1.7e12 for line in lines)


@pytest.mark.parametrize("torn", [b'{"step": 3, "metr', b"\x00\x00", b'{"step": 3, "metrics": {}}'])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        for step in (1, 2):
            history.write(Measurement(step, {}))
    path.write_bytes(path.read_bytes() + torn)
    assert [line["step"] for line, _ in read_measurements(path)] == [1, 2]
    with History(path) as history:
        history.write(Measurement(3, {}))
    assert steps(path) == [1, 2, 3]


def test_a_line_lost_to_a_full_disk_is_written_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.write(Measurement(1, {}))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = path.stat().st_size + 10  # The file may grow by 10 bytes, which is only a part of a line.
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            history.write(Measurement(2, {}))
            history.write(Measurement(3, {}))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [line["step"] for line, _ in read_measurements(path)] == [1]
        assert "cannot be written" in caplog.text
        history.write(Measurement(4, {}))
    assert steps(path) == [1, 2, 3, 4]


def test_reading_continues_at_a_byte_offset(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(
        b"".join(b'{"step": %d, "metrics": {}}\n' % step for step in (1, 2)) + b'no json\n{"step": 3, "metrics": {}}\n'
    )
    ends = [end for _, end in read_measurements(path)]
    assert [line["step"] for line, _ in read_measurements(path, ends[0])] == [2, 3]
    assert list(read_measurements(path, ends[-1])) == []
    assert list(read_measurements(tmp_path / "missing")) == []


@pytest.mark.parametrize(
    "damaged",
    [
        b"\xff\xfe\n",
        b"{}\n",
        b"[1]\n",
        b"null\n",
        b'{"step": 2, "metrics": 3}\n',
        b'{"stdp": 2, "metrics": {"train_loss_nats": 1.0}}\n',
        b'{"step": "2", "metrics": {"train_loss_nats": 1.0}}\n',
        b'{"step": 2, "metribs": {"train_loss_nats": 1.0}}\n',
        b'{"step": 2, "metrics": {"train_loss_nats": "1.0"}}\n',
        b'{"step": 2, "attempt": [], "metrics": {}}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_line_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bytes) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        for step in (1, 2):
            history.write(Measurement(step, {"train_loss_nats": 1.0}))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damaged + second)
    assert [measured["step"] for measured, _ in read_measurements(path)] == [1, 2]
    assert "it is damaged" in caplog.text
    assert read_series(path, "train_loss_nats")[1] == [1.0, 1.0]
