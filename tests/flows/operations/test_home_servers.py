"""Only the owner of an rnnlm home can read the servers' password. A damaged file with the servers' ports is ignored."""

import os
from pathlib import Path

import pytest

from flows.operations.home_servers import LOCK, PASSWORD_FILE, RECORD_FILE, home_password, read_running
from rnnlm.errors import HomeError
from rnnlm.storage.home import Home


def test_a_password_is_made_once_and_is_private(home: Home) -> None:
    first = home_password(home)
    assert home_password(home) == first
    assert (home.root / PASSWORD_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (b"rnnlm:known-to-others\n", 0o644, "other users may read or write it"),
        (b"rnnlm:known-to-others\n", 0o620, "other users may read or write it"),
        (b"", 0o600, "not one line"),
        (b"\n", 0o600, "not one line"),
        (b"rnnlm:\n", 0o600, "not one line"),
        (b"rnnlm:short\n", 0o600, "not one line"),
        (b":no-user-is-named\n", 0o600, "not one line"),
        (b"no-colon-anywhere\n", 0o600, "not one line"),
        (b"rnnlm:first-line\nrnnlm:second\n", 0o600, "not one line"),
        (b"rnnlm:with a space in it\n", 0o600, "not one line"),
        (b"rnnlm:\xff\xfe\xfd\xff\xfe\xfd\xff\xfe\n", 0o600, "not one line"),
        (b"rnnlm:" + b"x" * 10_000, 0o600, "not one line"),
    ],
)
def test_a_password_that_another_may_know_is_refused(home: Home, content: bytes, mode: int, told: str) -> None:
    home.make(home.root)
    path = home.root / PASSWORD_FILE
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(HomeError, match=told) as error:
        home_password(home)
    assert "known" not in str(error.value)  # The message must not contain the password.
    path.unlink()
    home_password(home)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_password_of_another_user_is_refused(home: Home, tmp_path: Path) -> None:
    home_password(home)
    os.chown(home.root / PASSWORD_FILE, 65534, 65534)
    with pytest.raises(HomeError, match="another user owns it"):
        home_password(home)
    (home.root / PASSWORD_FILE).unlink()
    (home.root / PASSWORD_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeError, match="it is not a file"):
        home_password(home)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": 1}', '{"prefect_port": "1", "mlflow_port": 2}', "\x00"])
def test_a_damaged_note_of_ports_is_none(home: Home, content: str) -> None:
    home.make(home.root)
    (home.root / RECORD_FILE).write_text(content)
    with home.lock(LOCK):
        assert read_running(home) is None
