"""Measure the fraction of sampled lines with quotes or brackets in which all of them are closed.

python benchmarks/closed_pairs.py RUN_FOLDER TEXT [--lines 2000]

Lines are sampled from the network, from the n-gram model and from their mixture. RUN_FOLDER is the folder that
`rnnlm run` prints at its end, and the run must have an n-gram model (`model.counts`). For comparison, the lines of the
file TEXT are measured, too. Lines are sampled from the whole distribution, at temperature 1, in sentence mode.
"""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from rnnlm.config import GenerationConfig
from rnnlm.generation.generate import draw
from rnnlm.models.model_factory import load_model
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

CLOSING = {")": "(", "]": "[", "}": "{"}
QUOTES = ('"', "``")
MAXIMUM_TOKENS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=2_000)
    options = parser.parse_args()
    model, tokenizer = load_model(options.run / "model"), load_tokenizer(options.run / "model")
    mixture = model.mixture
    if mixture is None:
        parser.error(f"{options.run}: the run has no n-gram model; train one with model.counts=5")
    sampling = GenerationConfig(temperature=1.0, top_p=1.0, maximum_tokens=MAXIMUM_TOKENS)
    print("| lines of | with brackets | of them closed | with quotes | of them closed |\n|---|---|---|---|---|")
    print_row("the text", options.text.read_text(encoding="utf-8").splitlines())
    shares = {"mixed": mixture.shares, "counts": np.ones_like(mixture.shares), "network": None}
    for name, share in shares.items():
        model.mixture = None if share is None else replace(mixture, shares=share)
        samples = draw(model, tokenizer, [""] * options.lines, sampling, seed=0)
        print_row(name, [sample.text for sample in samples])


def print_row(name: str, lines: Iterable[str]) -> None:
    brackets = [closes_brackets(line) for line in lines if set(line) & {*CLOSING, *CLOSING.values()}]
    quotes = [sum(map(line.count, QUOTES)) % 2 == 0 for line in lines if any(quote in line for quote in QUOTES)]
    cells = [cell for found in (brackets, quotes) for cell in (f"{len(found):,}", f"{share(found):.0%}")]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def closes_brackets(line: str) -> bool:
    """Return True if each bracket is closed by a bracket of the same kind, in the reverse order of opening."""
    opened: list[str] = []
    for character in line:
        if character in CLOSING.values():
            opened.append(character)
        elif character in CLOSING and (not opened or opened.pop() != CLOSING[character]):
            return False
    return not opened


def share(found: list[bool]) -> float:
    return sum(found) / len(found) if found else 0.0


if __name__ == "__main__":
    main()
