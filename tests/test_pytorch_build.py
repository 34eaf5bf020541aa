"""Each machine gets a suitable build of PyTorch. pip is real, but the wheels of the indexes and nvidia-smi are fake."""

import functools
import hashlib
import http.server
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pip
import pytest

PROGRAM = Path(__file__).resolve().parent.parent / "deploy" / "pytorch_build.py"
(PINNED,) = re.findall(r"^torch==(.*)", (PROGRAM.parent.parent / "constraints.txt").read_text("utf-8"), re.MULTILINE)
SMI = """#!/bin/sh
cat <<'END'
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      {} |
|-----------------------------------------+------------------------+----------------------+
END
"""
NO_DRIVER = "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the driver'\nexit 9\n"
CUDA_12, CUDA_13 = SMI.format("CUDA Version: 12.6    "), SMI.format("CUDA Version: 13.0    ")


def write_wheel(folder: Path, version: str) -> None:
    """Write an empty wheel of a package named torch to the folder of a package index."""
    folder = folder / "torch"
    folder.mkdir(parents=True, exist_ok=True)
    information, record = f"torch-{version}.dist-info", []
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in {
            "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
            "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }.items():
            wheel.writestr(f"{information}/{name}", text)
            record.append(f"{information}/{name},sha256={hashlib.sha256(text.encode()).hexdigest()},{len(text)}")
        wheel.writestr(f"{information}/RECORD", "\n".join([*record, f"{information}/RECORD,,"]))


class Indexes:
    """A package index with the build for CUDA 13, and PyTorch's own index with other builds."""

    def __init__(self, folder: Path) -> None:
        for version, name in ((PINNED, "simple"), (f"{PINNED}+cpu", "whl/cpu"), (f"{PINNED}+cu126", "whl/cu126")):
            write_wheel(folder / name, version)
        write_wheel(folder / "old/cpu", "1.13.1+cpu")
        self.asked: list[str] = []
        asked = self.asked

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *arguments: object) -> None:
                asked.append(self.path)

        handler = functools.partial(Handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexes]:
    indexes = Indexes(tmp_path_factory.mktemp("indexes"))
    thread = threading.Thread(target=indexes.server.serve_forever)
    thread.start()
    yield indexes
    indexes.server.shutdown()
    thread.join()
    indexes.server.server_close()


def set_driver(folder: Path, program: str | None) -> None:
    """Create a folder `bin`. If `program` is given, write it to `bin` as nvidia-smi."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    (folder / "bin").mkdir()
    if program is not None:
        (folder / "bin" / "nvidia-smi").write_text(program, encoding="utf-8")
        (folder / "bin" / "nvidia-smi").chmod(0o755)


class Machine:
    """An environment with only pip, on a machine with or without an NVIDIA driver."""

    def __init__(self, folder: Path, indexes: Indexes) -> None:
        self.folder, self.indexes = folder, indexes
        venv.create(folder / "environment", symlinks=True)
        self.packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "environment")}))
        (self.packages / "pip").symlink_to(Path(pip.__file__).parent)

    def install(
        self, asked: str = "", *, index: str | None = None, package_index: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Install torch with TORCH=asked, and return the finished process.

        `index` is the address of PyTorch's index.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "TORCH"))}
        environment |= {
            "PATH": f"{self.folder / 'bin'}:/bin",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_CACHE_DIR": str(self.folder / "cache"),
            "PIP_INDEX_URL": package_index or f"{self.indexes.address}/simple",
            "TORCH_INDEX": index or f"{self.indexes.address}/whl",
        }
        command = [str(self.folder / "environment" / "bin" / "python"), str(PROGRAM), asked]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    @property
    def version(self) -> str | None:
        """The version of the installed torch, or None if torch is not installed."""
        found = [path.name for path in self.packages.glob("torch-*.dist-info")]
        assert len(found) <= 1
        return found[0].removeprefix("torch-").removesuffix(".dist-info") if found else None


@pytest.fixture
def machine(tmp_path: Path, indexes: Indexes) -> Machine:
    if sys.platform != "linux":
        pytest.skip("the package index's build has no CUDA elsewhere")
    return Machine(tmp_path, indexes)


@pytest.mark.parametrize(
    ("driver", "asked", "build"),
    [
        (None, "", "cpu"),
        (NO_DRIVER, "", "cpu"),
        (CUDA_13, "", "own"),
        (SMI.format("CUDA UMD Version: 13.1"), "", "own"),  # Newer drivers print this output.
        (SMI.format("written otherwise"), "", "own"),
        (SMI.format("CUDA Version: 12.0    "), "", "cu126"),
        (CUDA_12, "", "cu126"),
        (SMI.format("CUDA Version: 11.8    "), "", "cpu"),
        (CUDA_13, "cpu", "cpu"),
        (None, "cuda", "own"),
        (NO_DRIVER, "cuda", "own"),
        (CUDA_12, "cuda", "cu126"),
    ],
)
def test_the_driver_chooses_the_build_unless_one_is_asked_for(
    driver: str | None, asked: str, build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = importlib.util.spec_from_file_location("pytorch_build", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    set_driver(tmp_path, driver)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    assert module.choose_build(asked) == (module.OWN if build == "own" else build)


@pytest.mark.long
@pytest.mark.parametrize(("driver", "build"), [(None, "+cpu"), (CUDA_12, "+cu126"), (CUDA_13, "")])
def test_the_build_comes_from_the_index_that_has_it(machine: Machine, driver: str | None, build: str) -> None:
    set_driver(machine.folder, driver)
    done = machine.install()
    assert done.returncode == 0, done.stderr
    assert machine.version == f"{PINNED}{build}"
    assert done.stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("place", ["a closed port", "nothing there", "other versions", "no answer"])
def test_without_pytorchs_index_the_package_index_is_taken(machine: Machine, place: str) -> None:
    set_driver(machine.folder, None)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # This server accepts connections, but never responds.
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        index = {
            "a closed port": f"http://127.0.0.1:{port}/whl",
            "nothing there": f"{machine.indexes.address}/nowhere",
            "other versions": f"{machine.indexes.address}/old",
            "no answer": f"http://127.0.0.1:{silent.getsockname()[1]}/whl",
        }[place]
        done = machine.install(index=index)
    assert done.returncode == 0, done.stderr
    assert machine.version == PINNED
    assert done.stderr.startswith(f"{index}/cpu cannot be reached, or has no such PyTorch")
    assert "3 GB to download and 6 GB" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_without_any_index_it_fails(machine: Machine) -> None:
    set_driver(machine.folder, None)
    nowhere = f"{machine.indexes.address}/nowhere"
    done = machine.install(index=nowhere, package_index=nowhere)
    assert done.returncode != 0
    assert "could not be installed" in done.stderr


@pytest.mark.long
def test_a_driver_that_is_too_old_is_named(machine: Machine) -> None:
    set_driver(machine.folder, SMI.format("CUDA Version: 11.4    "))
    done = machine.install("cuda")
    assert done.returncode != 0
    assert machine.version is None
    assert "CUDA 11.4" in done.stderr
    assert machine.install().returncode == 0
    assert machine.version == f"{PINNED}+cpu"


@pytest.mark.long
def test_an_environment_keeps_its_build_unless_another_one_is_asked_for(machine: Machine) -> None:
    set_driver(machine.folder, None)
    machine.install()
    set_driver(machine.folder, CUDA_13)
    asked = len(machine.indexes.asked)
    assert machine.install().returncode == 0
    assert machine.version == f"{PINNED}+cpu"
    # No index is requested, because the build is already installed.
    assert len(machine.indexes.asked) == asked
    for build, version in (("cuda", PINNED), ("cpu", f"{PINNED}+cpu")):
        assert machine.install(build).returncode == 0
        assert machine.version == version


@pytest.mark.long
def test_a_new_pin_is_the_same_build_of_a_later_version(machine: Machine) -> None:
    set_driver(machine.folder, None)
    machine.install()
    before = machine.packages / f"torch-{PINNED}+cpu.dist-info"
    metadata = (before / "METADATA").read_text(encoding="utf-8").replace(PINNED, "1.13.1")
    before = before.rename(machine.packages / "torch-1.13.1+cpu.dist-info")
    (before / "METADATA").write_text(metadata, encoding="utf-8")
    record = (before / "RECORD").read_text(encoding="utf-8").replace(PINNED, "1.13.1")
    (before / "RECORD").write_text(record, encoding="utf-8")
    assert machine.install().returncode == 0
    assert machine.version == f"{PINNED}+cpu"


@pytest.mark.long
def test_another_word_is_refused(machine: Machine) -> None:
    set_driver(machine.folder, None)
    done = machine.install("gpu")
    assert done.returncode != 0
    assert done.stderr.startswith("TORCH=gpu: expected cpu or cuda")
    assert machine.version is None
