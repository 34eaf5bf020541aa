"""Test perplexity and time of network, counts and their mixture on several corpora: the table in the README.

python benchmarks/corpora.py CORPUS [CORPUS …] [-- OPTIONS OF rnnlm run]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEADS = ("corpus", "train tokens", "network", "counts", "mixed", "bits/byte", "training", "counting", "whole run")


def measure(corpus: str, options: list[str], home: str) -> dict[str, object]:
    """`rnnlm run --json` on a corpus, with its wall time in seconds."""
    command = [str(Path(sys.executable).parent / "rnnlm"), "run", "--corpus", corpus, "--json", *options]
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | {"RNNLM_HOME": home}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    facts: dict[str, object] = json.loads(done.stdout)
    return facts | {"wall_seconds": time.perf_counter() - start}


def main() -> None:
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    corpora, options = arguments[:cut], arguments[cut + 1 :]
    print("| " + " | ".join(HEADS) + " |\n|" + "---|" * len(HEADS))
    with tempfile.TemporaryDirectory() as home:
        for corpus in corpora:
            facts = measure(corpus, options, home)
            print(
                f"| {facts['corpus']} | {facts['train_tokens']:,} | {facts['network_test_perplexity']:.1f} "
                f"| {facts['counts_test_perplexity']:.1f} | {facts['test_perplexity']:.1f} "
                f"| {facts['network_bits_per_byte']:.3f} / {facts['counts_bits_per_byte']:.3f} "
                f"/ {facts['bits_per_byte']:.3f} | {facts['seconds']['training']:.0f} s "  # type: ignore[index]
                f"| {facts['counting_seconds']:.0f} s | {facts['wall_seconds']:.0f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
