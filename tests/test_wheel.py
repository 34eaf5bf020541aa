"""The wheel works in a folder without this checkout. It trains, registers, serves and generates."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent
SENTENCES = ("the cat sees the dog .", "the dog likes the fox near the river .", "the bird follows the cat .")


LAST_RELEASE = "7f730348"  # The commit of rnnlm 0.3.0.


def make_environment(folder: Path) -> tuple[Path, Path]:
    """Create an environment with all packages of this one except rnnlm.

    Return its bin folder and its package folder.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    # This checkout's editable install has no effect there, because Python does not read a .pth file in a folder that
    # another .pth file adds.
    site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin", site_packages


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of an environment with this checkout's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("rnnlm-*.whl")
    scripts, _ = make_environment(folder / "environment")
    install = ["--python", str(scripts / "python"), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    return scripts


@pytest.fixture
def last_release(tmp_path: Path) -> Path:
    """Return the bin folder of an environment with the last release, installed from a checkout.

    Its wheel lacks the presets.
    """
    archive = subprocess.run(["git", "archive", LAST_RELEASE], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"needs the commit {LAST_RELEASE} of the repository")
    (source := tmp_path / "source").mkdir()
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    scripts, site_packages = make_environment(tmp_path / "environment")
    (site_packages / "release.pth").write_text(f"{source}\n", encoding="utf-8")
    lines = (
        f"#!{scripts / 'python'}",
        "from flows.command_line import console_entry",
        "raise SystemExit(console_entry())",
    )
    (scripts / "rnnlm").write_text("\n".join(lines), encoding="utf-8")
    (scripts / "rnnlm").chmod(0o755)
    return scripts


def environment_with(home: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PREFECT_"))}
    return variables | {"RNNLM_HOME": str(home)}


def write_text(path: Path, paragraphs: int) -> None:
    path.write_text("\n\n".join(SENTENCES[i % 3] + f"\nnumber {i} ." for i in range(paragraphs)), encoding="utf-8")


@pytest.mark.slow
def test_a_wheel_trains_and_serves_without_the_checkout(commands: Path, tmp_path: Path) -> None:
    environment = environment_with(tmp_path / "home")
    where = [str(commands / "python"), "-c", "import flows, rnnlm, tasks; print(rnnlm.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert Path(found.stdout).is_relative_to(commands.parent)

    text = tmp_path / "text.txt"
    write_text(text, 400)
    run = [str(commands / "rnnlm"), "run", "--preset", "smoke", "--corpus", str(text), "--json"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["alias"] == "champion"

    serve = [str(commands / "rnnlm"), "serve", "--port", "0", "--json"]
    with subprocess.Popen(serve, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
                assert client.get("/health").status_code == 200
                answer = client.post("/generate", json={"prompt": "the", "maximum_tokens": 5, "seed": 1})
                assert answer.status_code == 200
                assert answer.json()["text"]
        finally:
            process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_home_of_the_last_release_goes_on(commands: Path, last_release: Path, tmp_path: Path) -> None:
    """The new version reads the models of release 0.3.0 and trains the next model. No file is a pickle."""
    text, home = tmp_path / "text.txt", tmp_path / "home"

    def rnnlm(scripts: Path, *arguments: str) -> Any:
        command = [str(scripts / "rnnlm"), *arguments, "--json"]
        done = subprocess.run(command, cwd=tmp_path, env=environment_with(home), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)

    write_text(text, 400)
    old = rnnlm(last_release, "run", "--preset", "smoke", "--corpus", str(text))
    assert old["alias"] == "champion"

    (read,) = rnnlm(commands, "runs")
    assert read["run_id"] == old["run_id"]
    (model,) = rnnlm(commands, "models")
    assert model["model_version"] == 1
    assert rnnlm(commands, "generate", model["model_name"], "--prompt", "the", "--seed", "1")["text"]
    # The evaluation needs only the text that release 0.3.0 has stored.
    assert rnnlm(commands, "evaluate", model["model_name"])

    write_text(text, 500)
    new = rnnlm(commands, "run", "--preset", "smoke", "--corpus", str(text))
    assert new["model_version"] == 2
    assert new["alias"] in ("champion", "challenger")
    pickles = [path for path in home.rglob("*") if path.is_file() and path.read_bytes()[:1] == b"\x80"]
    assert pickles == []
