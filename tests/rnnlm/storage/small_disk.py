"""A file system of 8 MiB for tests of full disks."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a file system of 8 MiB. The test is skipped if this user is not permitted to mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no program mount")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting is not permitted")
    yield disk
    # The file system is unmounted lazily, because the caught error may keep a file open.
    subprocess.run(["umount", "--lazy", disk], check=True)
