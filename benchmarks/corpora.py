"""Measure the test perplexity and time of network, n-gram model and mixture on several corpora.

python benchmarks/corpora.py CORPUS [CORPUS …] [-- OPTIONS OF rnnlm run]

README and perplexity.md show the results. With `-- --seeds 3`, the table shows mean perplexities over three seeds with
the 95 % interval of the mean, and mean bits per byte. The column `training` is then the time of the first seed, and
`whole run` is the time of all seeds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HEADS = ("corpus", "train tokens", "network", "counts", "mixed", "bits/byte", "training", "counting", "whole run")


def measure(corpus: str, options: list[str], home: str) -> dict[str, Any]:
    """Run `rnnlm run --json` on a corpus, and add its wall-clock time in seconds to the result."""
    command = [str(Path(sys.executable).parent / "rnnlm"), "run", "--corpus", corpus, "--json", *options]
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | {"RNNLM_HOME": home}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts | {"wall_seconds": time.perf_counter() - start}


def scores_of(facts: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the test perplexity and bits per byte of network and mixture. With several seeds, these are means."""
    if facts["seeds"]:
        means = [score for score in facts["seeds"]["scores"] if score["split"] == "test"]
        return [(f"{m['mean_perplexity']:.1f} ± {m['margin']:.1f}", m["mean_bits_per_byte"]) for m in means]
    return [
        (f"{facts['network_test_perplexity']:.1f}", facts["network_bits_per_byte"]),
        (f"{facts['test_perplexity']:.1f}", facts["bits_per_byte"]),
    ]


def main() -> None:
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    corpora, options = arguments[:cut], arguments[cut + 1 :]
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
    with tempfile.TemporaryDirectory() as home:
        for corpus in corpora:
            facts = measure(corpus, options, home)
            (network, network_bits), (mixed, mixed_bits) = scores_of(facts)
            print(
                f"| {facts['corpus']} | {facts['train_tokens']:,} "
                f"| {network} | {facts['counts_test_perplexity']:.1f} | {mixed} "
                f"| {network_bits:.3f} / {facts['counts_bits_per_byte']:.3f} / {mixed_bits:.3f} "
                f"| {facts['seconds']['training']:.0f} s | {facts['counting_seconds']:.0f} s "
                f"| {facts['wall_seconds']:.0f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
