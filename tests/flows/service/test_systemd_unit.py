"""The systemd unit is valid, and never replaces the unit of another rnnlm home."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flows.operations.home_servers import LOCK, RunningHome, write_running
from flows.service.systemd_unit import install_unit, unit_file, unit_text
from rnnlm.errors import ConfigError
from rnnlm.storage.home import Home


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["home", "a home with spaces", '100% $HOME "it\'s"'])
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path / name)
    home.make(home.root)
    unit = tmp_path / "rnnlm.service"
    unit.write_text(unit_text(home, 4200, 5000), encoding="utf-8")
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    command = ["systemd-analyze", "verify", "--user", str(unit)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rnnlm.service" not in done.stderr


def test_another_system_is_told_what_to_run_instead(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ConfigError, match="only Linux can run(.|\n)*launchd(.|\n)* up --quiet --port 4300") as refused:
        install_unit(home, 4300, 5100)
    assert len(str(refused.value).splitlines()) == 2
    assert list(tmp_path.rglob("*.service")) == []


def test_installing_writes_the_unit_and_says_what_is_left_to_do(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", "")  # With an empty PATH, systemctl cannot be found.
    lines = install_unit(home, 4300, 5100)
    text = unit_file().read_text()
    assert f"RNNLM_HOME={home.root}" in text
    assert "up --quiet --port 4300 --mlflow-port 5100" in text
    assert "systemctl --user enable --now rnnlm.service" in "\n".join(lines)
    install_unit(home, 4300, 5100)  # Install the unit again, which must change nothing.
    with home.lock_if_free(LOCK):  # `rnnlm up` is already running, so a second one would end at once.
        write_running(home, RunningHome(os.getpid(), "", 4300, 5100))
        assert "systemctl --user enable rnnlm.service" in "\n".join(install_unit(home, 4300, 5100))
    with pytest.raises(ConfigError, match="belongs to another home"):
        install_unit(Home(tmp_path / "other"), 4200, 5000)
