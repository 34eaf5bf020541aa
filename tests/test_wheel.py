"""The wheel alone, without this checkout: it trains, registers, serves and generates in another folder."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent
SENTENCES = ("the cat sees the dog .", "the dog likes the fox near the river .", "the bird follows the cat .")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of a fresh environment that has the wheel, and everything that this one has but rnnlm."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("rnnlm-*.whl")
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    scripts = environment / "bin"
    install = ["--python", str(scripts / "python"), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    # A .pth file of a folder that is itself on the path through a .pth file is not read, so the editable install of
    # this checkout has no effect there.
    site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return scripts


@pytest.mark.slow
def test_a_wheel_trains_and_serves_without_the_checkout(commands: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PREFECT_"))}
    environment |= {"RNNLM_HOME": str(tmp_path / "home")}
    where = [str(commands / "python"), "-c", "import flows, rnnlm, tasks; print(rnnlm.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert Path(found.stdout).is_relative_to(commands.parent)

    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(SENTENCES[i % 3] + f"\nnumber {i} ." for i in range(400)), encoding="utf-8")
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
