"""Measure how long commands take in addition to training, and compare this with the time that their imports take.

    .venv/bin/python benchmarks/overhead.py TEXT [--checkouts . ../before] [--rounds 3]

Two texts of 350 kB are taken from TEXT. Each checkout has a separate rnnlm home, runs with this Python, and is measured
once in every round. `begin` is the time until the first stage ends, `training` the training stage, `end` the time from
the last stage to the end, and `others` the rest. The value `factor` is (seconds - training) / (seconds of the imports).
The imports are measured in every round.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from rnnlm.display.text_layout import markdown_table

TEXT_BYTES = 350_000
SCORED_LINES = 3_000
IMPORTS = [sys.executable, "-c", "import torch, prefect, mlflow, transformers"]
PROGRAM = [sys.executable, "-P", "-m", "flows.command_line"]
STAGE = re.compile(r"(\w+): (?:done \(([0-9.]+) s\)|skipped)")
Parts = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--checkouts", nargs="+", type=Path, default=[Path()])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[str, Path], list[Parts]] = defaultdict(list)
    imports: list[float] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            texts = write_texts(options.text, Path(folder))
            imports.append(timed(IMPORTS, Path(folder), Path())["total"])
            for checkout in options.checkouts:
                home = Path(folder) / f"home-{options.checkouts.index(checkout)}"
                for name, arguments in commands(texts, home).items():
                    found[name, checkout].append(timed([*PROGRAM, *arguments], home, checkout))
    print(f"imports of torch, Prefect, MLflow and transformers: {median(imports):.1f} s\n")
    print(
        markdown_table([row(name, checkout, timings, median(imports)) for (name, checkout), timings in found.items()])
    )


def write_texts(source: Path, folder: Path) -> list[Path]:
    """Write two texts for training and one with SCORED_LINES lines for scoring."""
    data = source.read_bytes()
    texts = [folder / name for name in ("first.txt", "second.txt", "lines.txt")]
    texts[0].write_bytes(data[:TEXT_BYTES])
    texts[1].write_bytes(data[-TEXT_BYTES:])
    texts[2].write_bytes(b"".join(data.splitlines(keepends=True)[:SCORED_LINES]))
    return texts


def commands(texts: list[Path], home: Path) -> dict[str, list[str]]:
    """Return the commands to measure, in the order of execution. Each needs the results of the previous ones."""
    first, second, lines = map(str, texts)
    run, model = ["run", "--minutes", "0.1", "--corpus"], "rnnlm-second"
    return {
        "first run": [*run, first],
        "second text": [*run, second],
        "nothing to do": [*run, second],
        f"score of {SCORED_LINES:,} lines": [
            "score",
            "--model",
            model,
            "--input",
            lines,
            "--output",
            f"{home}.parquet",
        ],
        "generate": ["generate", model],
        "models": ["models"],
    }


def timed(command: list[str], home: Path, checkout: Path) -> Parts:
    """Run a command, and return how many seconds each part took, from the times at which it logs the stages."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"RNNLM_HOME": str(home), "PYTHONPATH": str(checkout.resolve())}
    parts, start = Parts(), time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stderr is not None
        written, last = [], start
        for line in run.stderr:
            written.append(line)
            if stage := STAGE.search(line):
                last = time.perf_counter()
                parts.setdefault("begin", last - start)
                if stage[1] == "training":
                    parts["training"] = float(stage[2] or 0.0)
    if run.returncode:
        sys.exit(f"{' '.join(command)} ended with code {run.returncode}:\n{''.join(written)[-2000:]}")
    end = time.perf_counter()
    return parts | {"total": end - start} | ({"end": end - last} if parts else {})


def row(name: str, checkout: Path, timings: list[Parts], imports: float) -> dict[str, str]:
    """Return a row of the table with the median seconds of each part of a command."""
    part = {key: median(timing.get(key, 0.0) for timing in timings) for key in ("total", "begin", "training", "end")}
    beside = part["total"] - part["training"]
    others = beside - part["begin"] - part["end"] if part["begin"] else 0.0
    seconds = {**part, "others": others}
    cells = {key: f"{seconds[key]:.1f}" if seconds[key] else "" for key in ("begin", "others", "end", "training")}
    return {
        "command": name,
        "checkout": str(checkout),
        **cells,
        "seconds": f"{beside:.1f}",
        "factor": f"{beside / imports:.1f}",
    }


if __name__ == "__main__":
    main()
