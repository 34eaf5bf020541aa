"""Measure how much the test perplexity of one configuration varies with each source of randomness.

    python benchmarks/variance.py CORPUS [--preset default] [--runs 6] [--set SECTION.FIELD=VALUE …]

`training.seed` determines the initial weights, the order of the text, and the dropout masks and sampled classes of each
step. Each of the first three rows varies one of these sources and keeps the seed of the others. A further row varies
all three, and the last row only the number of torch's threads. With another number of threads, sums are rounded
differently, as on another machine. Each run is a real training run of the network alone, without Prefect and MLflow.

The table shows the mean and the standard deviation of the test perplexity, and how many runs of each of two
configurations are needed to show a difference of 1 % between their means (two-sided at 5 %, with a power of 80 %, by
the normal approximation).
"""

import argparse
import contextlib
import logging
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from untracked import untracked

from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training import seeding, train, training_loop
from rnnlm.training.training_run import run_training

SOURCES = ("initial weights", "order of the text", "dropout and sampled classes")
ALL, THREADS = "all three: training.seed", "torch's threads: 1, 2"
DIFFERENCE = 0.01
NORMAL_QUANTILES = 1.960 + 0.842  # The sum of the normal distribution's 97.5 % and 80 % quantiles.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.FIELD=VALUE", help="in every run")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    torch.set_num_threads(1)
    config = build_config(options.preset, ["model.counts=0", *options.set], options.corpus)
    print("| varied | runs | mean | standard deviation | in % | runs for 1 % |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        dataset = prepare_dataset(Home(Path(folder) / "dataset"), config)
        for varied in (*SOURCES, ALL, THREADS):
            count = 2 if varied == THREADS else options.runs
            scores = [measure(Path(folder) / f"{varied}-{run}", config, dataset, varied, run) for run in range(count)]
            mean, deviation = statistics.fmean(scores), statistics.stdev(scores)
            needed = math.ceil(2 * (NORMAL_QUANTILES * deviation / (DIFFERENCE * mean)) ** 2)
            print(
                f"| {varied} | {count} | {mean:.2f} | {deviation:.3f} | {deviation / mean:.2%} | {max(2, needed)} |",
                flush=True,
            )


def measure(folder: Path, config: PipelineConfig, dataset: DatasetRecord, varied: str, run: int) -> float:
    """Train a model in a new rnnlm home, and return its test perplexity."""
    home = Home(folder)
    seed = config.training.seed + 1_000 * run
    torch.set_num_threads(1 + run if varied == THREADS else 1)
    with contextlib.ExitStack() as changes:
        for source in SOURCES:
            if varied in (source, ALL):
                changes.enter_context(drawn_from(source, seed))
        trained = run_training(home, config, dataset, untracked)
    return evaluate_run(home, dataset, trained, config.evaluation).scores["test"].perplexity


@contextlib.contextmanager
def drawn_from(source: str, seed: int) -> Iterator[None]:
    """Use another seed for one source of randomness inside the `with` block."""
    build_model, training_batches, step_generator = train.build_model, train.training_batches, seeding.step_generator
    replaced: dict[str, tuple[Any, str, Any]] = {
        "initial weights": (train, "build_model", lambda model, size, _, bias: build_model(model, size, seed, bias)),
        "order of the text": (
            train,
            "training_batches",
            lambda training, *rest: training_batches(training.model_copy(update={"seed": seed}), *rest),
        ),
        "dropout and sampled classes": (training_loop, "step_generator", lambda _, step: step_generator(seed, step)),
    }
    module, name, function = replaced[source]
    with patch.object(module, name, function):
        yield


if __name__ == "__main__":
    main()
