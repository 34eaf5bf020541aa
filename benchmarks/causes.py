"""Measure why an Elman network is worse than a Transformer: because of its context, its size, or its memory.

python benchmarks/causes.py TEXT --home FOLDER [--picture FILE.png] [--epochs 1]

A textbook names these three causes. Every 40 lines of TEXT become one document, so that a context can be longer than a
sentence. The compared networks have as many parameters as an Elman network of a given number of units, and are trained
on the same tokens:

- context: rows of 15 to 480 tokens, each starting from a state of zeros, with 256 units;
- size: 64 to 512 units, with rows of 60 tokens;
- memory: accuracy of recalling a symbol after 24 to 192 others, in the `echo` task of `rnnlm probe abilities`.

Losses are bits per byte of the test split, with paired 95 % bootstrap intervals over documents. After an interruption,
finished networks are loaded again from --home.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from untracked import untracked

from rnnlm.config import ModelKind, PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.display.plots import new_figure, set_titles
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.extensions.comparison.comparison_config import NAMES, CompareConfig
from rnnlm.extensions.comparison.comparison_plots import colour_of
from rnnlm.extensions.comparison.document_bootstrap import PairDifference, pair_difference, read_documents
from rnnlm.extensions.comparison.run_plan import matched_configs
from rnnlm.extensions.probes.kind_probes import stored_ability
from rnnlm.extensions.probes.probe_config import AbilitiesConfig
from rnnlm.metrics import NATS_PER_BIT
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training

DOCUMENT_LINES = 40
CONTEXTS, CONTEXT_UNITS = (15, 30, 60, 120, 240, 480), 256
SIZES, SIZE_CONTEXT = (64, 128, 256, 512), 60
COMPARED: tuple[ModelKind, ...] = ("elman", "lstm", "transformer")
ROW_TOKENS = 32 * 60  # The number of tokens per batch at every row length.


class Costs:
    """The losses of the test documents for several networks. A network is trained when its losses are needed."""

    def __init__(self, text: Path, home: Home, epochs: int) -> None:
        self.home, self.epochs = home, epochs
        self.text = home.root / f"{text.stem}-documents.txt"
        lines = text.read_text(encoding="utf-8").splitlines()
        parts = [lines[first : first + DOCUMENT_LINES] for first in range(0, len(lines), DOCUMENT_LINES)]
        self.text.write_text("".join(" ".join(part) + "\n" for part in parts), encoding="utf-8")
        self.byte_counts = np.zeros(0)

    def of(self, kind: ModelKind, units: int, context: int) -> np.ndarray:
        """Return the loss of a network in nats for each test document, as an array of shape (documents,)."""
        config = self.config_of(units, context)
        dataset = prepare_dataset(self.home, config)
        compared = CompareConfig(pipeline=config, models=COMPARED)
        matched = matched_configs(compared, dataset)[kind]
        run = run_training(self.home, matched, dataset, untracked)
        documents = read_documents(dataset, "test")
        self.byte_counts = documents.byte_counts
        return documents.total_nats(stored_nll(self.home, dataset, run, "test", matched.evaluation.batch_size))

    def config_of(self, units: int, context: int) -> PipelineConfig:
        settings = [
            f"model.hidden_size={units}",
            f"sequences.context_length={context}",
            f"training.batch_size={max(1, ROW_TOKENS // context)}",
            f"training.epochs={self.epochs}",
            "training.precision=bfloat16",
            f"model.attention_window={max(CONTEXTS)}",
        ]
        return build_config("default", settings, str(self.text))

    def bits_per_byte(self, nats: np.ndarray) -> float:
        return float(nats.sum() / NATS_PER_BIT / self.byte_counts.sum())

    def difference(self, first: np.ndarray, second: np.ndarray) -> PairDifference:
        return pair_difference("first", "second", first - second, self.byte_counts, seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    options.home.mkdir(parents=True, exist_ok=True)
    costs = Costs(options.text, Home(options.home), options.epochs)
    contexts = table(costs, "tokens of context", [(context, CONTEXT_UNITS, context) for context in CONTEXTS])
    sizes = table(costs, "units of the Elman network", [(units, units, SIZE_CONTEXT) for units in SIZES])
    memory = memory_table(costs.home)
    print_causes(costs, contexts, sizes)
    if options.picture:
        draw(costs, contexts, sizes, memory, options.picture)


def table(costs: Costs, title: str, trials: list[tuple[int, int, int]]) -> dict[ModelKind, dict[int, np.ndarray]]:
    """Train and score the networks of `trials`, print a table, and return the documents' losses in nats.

    The result maps each kind of network and each shown value to losses. A trial consists of the shown value, the number
    of units and the context in tokens.
    """
    found: dict[ModelKind, dict[int, np.ndarray]] = {kind: {} for kind in COMPARED}
    print(f"\n| {title} | " + " | ".join(NAMES[kind] for kind in COMPARED) + " |\n|" + "---|" * (1 + len(COMPARED)))
    for value, units, context in trials:
        for kind in COMPARED:
            found[kind][value] = costs.of(kind, units, context)
        cells = [f"{costs.bits_per_byte(found[kind][value]):.3f}" for kind in COMPARED]
        print(f"| {value} | " + " | ".join(cells) + " |", flush=True)
    return found


def memory_table(home: Home) -> dict[ModelKind, tuple[float, ...]]:
    """Return the accuracy with which each kind of network recalls a row's first symbol, for each row length."""
    config = AbilitiesConfig(kinds=COMPARED, tasks=("echo",), seeds=1)
    print("\n| row of `echo` | " + " | ".join(map(str, config.lengths)) + " |\n|" + "---|" * (1 + len(config.lengths)))
    found = {}
    for kind in COMPARED:
        found[kind] = stored_ability(home, config, kind, "echo", seed=0, force=False).accuracies
        print(f"| {NAMES[kind]} | " + " | ".join(f"{share:.0%}" for share in found[kind]) + " |", flush=True)
    return found


def print_causes(costs: Costs, contexts: dict[ModelKind, Any], sizes: dict[ModelKind, Any]) -> None:
    """Print by how many bits per byte each remedy improves the Elman network. One remedy is a longer context."""
    elman = contexts["elman"]
    remedies = {
        f"context of {CONTEXTS[1]} → {CONTEXTS[-1]} tokens": (elman[CONTEXTS[1]], elman[CONTEXTS[-1]]),
        f"{SIZES[1]} → {SIZES[-1]} units": (sizes["elman"][SIZES[1]], sizes["elman"][SIZES[-1]]),
        "LSTM in its place": (elman[CONTEXTS[2]], contexts["lstm"][CONTEXTS[2]]),
        "Transformer in its place": (elman[CONTEXTS[2]], contexts["transformer"][CONTEXTS[2]]),
        f"Transformer in its place, context of {CONTEXTS[-1]}": (
            elman[CONTEXTS[-1]],
            contexts["transformer"][CONTEXTS[-1]],
        ),
    }
    print("\n| the Elman network gains by | bits per byte | 95 % interval |\n|---|---|---|")
    for name, (before, after) in remedies.items():
        gain = costs.difference(before, after)
        print(f"| {name} | {gain.difference:.4f} | {gain.lower:.4f} to {gain.upper:.4f} |", flush=True)


def draw(
    costs: Costs,
    contexts: dict[ModelKind, Any],
    sizes: dict[ModelKind, Any],
    memory: dict[ModelKind, tuple[float, ...]],
    picture: Path,
) -> None:
    figure, panels = new_figure((13, 4), columns=3)
    for axes, found, title, x in (
        (panels[0], contexts, "Context", "tokens of context"),
        (panels[1], sizes, "Size", "units of the Elman network; others as large"),
    ):
        for kind in COMPARED:
            ys = [costs.bits_per_byte(nats) for nats in found[kind].values()]
            axes.semilogx(list(found[kind]), ys, color=colour_of(kind), marker="o", label=NAMES[kind])
        axes.set_xticks(list(found["elman"]), [str(value) for value in found["elman"]], minor=False)
        axes.minorticks_off()
        set_titles(axes, title, x, "bits per byte, test split")
    # Two lines of the plot coincide, so markers of different sizes keep both visible.
    for kind, size in zip(COMPARED, (11, 7, 7), strict=True):
        panels[2].semilogx(AbilitiesConfig().lengths, memory[kind], color=colour_of(kind), marker="o", markersize=size)
    panels[2].set_xticks(AbilitiesConfig().lengths, list(map(str, AbilitiesConfig().lengths)))
    panels[2].minorticks_off()
    panels[2].yaxis.set_major_formatter("{x:.0%}")
    set_titles(panels[2], "Memory: rows whose symbol is known", "tokens since then")
    panels[0].legend(frameon=False)
    figure.savefig(picture)


if __name__ == "__main__":
    main()
