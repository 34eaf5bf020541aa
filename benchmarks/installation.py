"""Install rnnlm from a clone of this checkout and train a first champion, or measure the size of each extra.

    python3 benchmarks/installation.py python3.11 /usr/bin/python3.13 … [--tests]
    python3 benchmarks/installation.py python3.11 --extras

Each Python version gets a separate environment. All installations share one rnnlm home, which the first installation
creates. The environment variables TORCH, TORCH_INDEX and those of pip have their usual effects.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--tests", action="store_true", help="run `make test`, too")
    parser.add_argument("--extras", action="store_true", help="install one extra after the other instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number, python in enumerate(options.pythons):
            clone = Path(folder) / f"clone-{number}"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            walk = [["make", ".venv/bin/python", f"PYTHON={python}"]]
            if options.extras:
                pip = [".venv/bin/python", "-m", "pip", "install", "--quiet", "--no-compile", "--constraint"]
                walk += [["make", "program"]]
                walk += [[*pip, "constraints.txt", "--editable", f".[{name}]"] for name in extras()]
            else:
                walk += [["make", "run"], *([["make", "test"]] if options.tests else [])]
            for command in walk:
                step(clone, command, Path(folder) / "home")


def extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def step(clone: Path, command: list[str], home: Path) -> None:
    """Run a command in the clone.

    Print how many seconds it took, the size of .venv and, if the command failed, its last output line.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, start = mebibytes(clone / ".venv"), time.perf_counter()
    environment["RNNLM_HOME"] = str(home)
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    seconds, size = time.perf_counter() - start, mebibytes(clone / ".venv")
    ends = (line for line in reversed(done.stdout.splitlines()) if " as champion" in line or " passed" in line)
    sizes = f"{size:6,.0f} MB (+{size - before:,.0f})"
    print(f"{' '.join(command)[:60]:<60}  {seconds:6.0f} s  {sizes}  {next(ends, '')}", flush=True)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])


def mebibytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


if __name__ == "__main__":
    main()
