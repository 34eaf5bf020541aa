"""Measure how many of 20 faults in a day's log are among the most unusual lines, for several methods.

    python benchmarks/strange_lines.py [--lines 200000] [--set model.kind=gru ...]

A fictitious shop writes two days of log lines: requests, queries, jobs, logins, searches, payments and mail, with
names, addresses, sizes and identifiers, and a few rare but normal lines. The second day has 20 faults: errors that have
never occurred before, known messages with a wrong word or a wrong combination of words, unusual numbers, a truncated
line, an attack. A model is trained on the first day with `rnnlm run`, and ranks the lines of the second day. Without
--set, the model includes a Kneser-Ney n-gram model.

The methods are `rnnlm score --top`; bits per byte alone; the rarest templates, with numbers and identifiers masked;
bits per byte of a character model of the first day (6-grams with stupid backoff, Brants and others 2007); and the
rarest clusters of the drain3 package, if it is installed. Lines of one template share a rank.
"""

import argparse
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from shop_log import ShopLog

from rnnlm.extensions.scoring.bulk_scoring import score_texts
from rnnlm.extensions.scoring.score_output import reading_scores
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.strange_documents import find_strange_documents
from rnnlm.storage.home import Home

try:
    from drain3 import TemplateMiner
except ImportError:
    TemplateMiner = None

IDENTIFIER = re.compile("[0-9a-fA-F]*[0-9][0-9a-fA-F]*")
ORDER = 6  # The order of the character n-grams.
BACKOFF = 0.4
PLACES = (20, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--set", nargs="*", default=["model.kind=kneser-ney"], help="settings of rnnlm run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rnnlm-strange-") as scratch:
        folder = Path(scratch)
        first, second = folder / "yesterday.log", folder / "today.log"
        training = ShopLog(1).lines(options.lines)
        lines = ShopLog(2).lines(options.lines)
        faults = set(random.Random(3).sample(range(options.lines), 20))
        for place, fault in zip(sorted(faults), ShopLog(4).faults(), strict=True):
            lines[place] = fault
        first.write_text("\n".join(training) + "\n", encoding="utf-8")
        second.write_text("\n".join(lines) + "\n", encoding="utf-8")
        home = Home(folder / "home")
        start = time.perf_counter()
        train(first, home, options.set)
        print(f"{options.lines:,} lines a day; trained in {time.perf_counter() - start:.0f} s\n")
        ways: dict[str, Callable[[], list[int]]] = {
            "rnnlm score --top": lambda: strangest(home, second),
            "its bits per byte alone": lambda: by_column(home, second, lines),
            "rarest templates": lambda: rarest(lines, [IDENTIFIER.sub("0", line) for line in lines]),
            "character 6-grams": lambda: costly(training, lines),
        }
        if TemplateMiner is not None:
            ways["rarest clusters of drain3"] = lambda: rarest(lines, drain_clusters(lines))
        print(
            f"| way | {' | '.join(f'faults in the first {count}' for count in PLACES)} | seconds |\n|---|---|---|---|"
        )
        for name, way in ways.items():
            start = time.perf_counter()
            ranked = way()
            found = [sum(place in faults for place in ranked[:count]) for count in PLACES]
            print(f"| {name} | {' | '.join(map(str, found))} | {time.perf_counter() - start:.0f} |", flush=True)


def train(text: Path, home: Home, settings: list[str]) -> None:
    command = [
        str(Path(sys.executable).with_name("rnnlm")),
        "run",
        "--corpus",
        str(text),
        *(f"--set={one}" for one in settings),
    ]
    variables = {"RNNLM_HOME": str(home.root), "PREFECT_HOME": str(home.prefect)}
    subprocess.run(
        command, check=True, env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def scoring_config(text: Path) -> ScoringConfig:
    return ScoringConfig(input=str(text), model="rnnlm-yesterday")


def strangest(home: Home, text: Path) -> list[int]:
    scoring = score_texts(home, scoring_config(text))
    return [document.place for document in find_strange_documents(scoring, max(PLACES))]


def by_column(home: Home, text: Path, lines: list[str]) -> list[int]:
    """Return the lines in descending order of bits per byte, from the scores that `rnnlm score` has stored."""
    scoring = score_texts(home, scoring_config(text))
    assert scoring.output is not None
    with reading_scores(scoring.output) as connection:
        costs = [cost or 0.0 for (cost,) in connection.view("scores").select("bits_per_byte").fetchall()]
    return ranked(lines, costs)


def ranked(lines: list[str], costs: list[float]) -> list[int]:
    """Rank the lines by descending cost, and keep only the first line of each template."""
    order = sorted(range(len(lines)), key=lambda place: -costs[place])
    places: dict[str, int] = {}
    for place in order:
        places.setdefault(IDENTIFIER.sub("0", lines[place]), place)
    return list(places.values())


def rarest(lines: list[str], groups: list[str]) -> list[int]:
    """Order lines by the number of lines in their group, the rarest group first and equally rare groups at random."""
    sizes = Counter(groups)
    draw = random.Random(5)
    return ranked(lines, [draw.random() - sizes[group] for group in groups])


def costly(training: list[str], lines: list[str]) -> list[int]:
    counts: list[Counter[str]] = [Counter() for _ in range(ORDER + 1)]
    for line in training:
        for order in range(1, ORDER + 1):
            counts[order].update(line[at : at + order] for at in range(len(line) - order + 1))
    characters = counts[1].total()

    def cost(line: str) -> float:
        bits = 0.0
        for at in range(len(line)):
            factor = 1.0
            for order in range(min(ORDER, at + 1), 0, -1):
                seen = counts[order][line[at - order + 1 : at + 1]]
                if seen:
                    whole = counts[order - 1][line[at - order + 1 : at]] if order > 1 else characters
                    bits -= math.log2(factor * seen / whole)
                    break
                factor *= BACKOFF
            else:
                bits += math.log2(characters) - math.log2(factor)
        return bits / max(1, len(line.encode()))

    return ranked(lines, [cost(line) for line in lines])


def drain_clusters(lines: list[str]) -> list[str]:
    miner = TemplateMiner()
    return [str(miner.add_log_message(IDENTIFIER.sub("0", line))["cluster_id"]) for line in lines]


if __name__ == "__main__":
    main()
