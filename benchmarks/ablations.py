"""Measure the gain of each ingredient of a preset by training the preset without it.

    python benchmarks/ablations.py CORPUS --home FOLDER [--preset ptb] [--epochs 8] [--only NAME …] [--set S.F=V …]

Each row is a real training run without Prefect and MLflow, with the preset's schedule stretched over `epochs`. All runs
are kept in the rnnlm home FOLDER. Finished runs are read again and interrupted runs continue, so the table may be
computed in several sessions. Perplexities are computed with the full softmax on whole splits.
"""

import argparse
import logging
import sys
from pathlib import Path

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from untracked import untracked

from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.training.history import read_measurements
from rnnlm.training.training_run import run_training

# The settings that each row of the table changes in the preset. A row is left out if the preset already has them.
ABLATIONS: dict[str, list[str]] = {
    "the preset": [],
    "seed 1": ["training.seed=1"],  # A run with another seed shows the size of random differences.
    "seed 2": ["training.seed=2"],
    "no tying": ["model.tie_embeddings=false"],
    "no locked dropout": [f"training.dropout.{where}=0" for where in ("inputs", "layers", "outputs")],
    "recurrent-weight dropout of 0.2": ["training.dropout.recurrent=0.2"],
    "word dropout of 0.1": ["training.dropout.words=0.1"],
    "xavier initialisation": ["model.recurrence=full", "model.recurrent_initialization=xavier"],
    "identity initialisation": ["model.recurrent_initialization=identity"],
    "orthogonal initialisation": ["model.recurrence=full", "model.recurrent_initialization=orthogonal"],
    "spread initialisation": ["model.recurrent_initialization=spread"],
    "full recurrence": ["model.recurrence=full"],
    "diagonal recurrence": ["model.recurrence=diagonal", "model.recurrent_initialization=spread"],
    "diagonal recurrence, 800 units": [
        "model.recurrence=diagonal",
        "model.recurrent_initialization=spread",
        "model.hidden_size=800",
    ],
    "no temperature scaling": ["training.temperature_scaling=false"],
    "constant rate": ["training.schedule.kind=constant"],
    "linear schedule": ["training.schedule.kind=linear"],
    "cosine schedule": ["training.schedule.kind=cosine"],
    "constant rate, averaging": ["training.schedule.kind=constant", "training.averaging.kind=mean"],
    "exponential averaging": ["training.averaging.kind=exponential"],
    "exact loss": ["training.loss.kind=exact"],
    "four diagonal layers that add up": [
        "model.layers=4",
        "model.residual=true",
        "model.recurrence=diagonal",
        "model.recurrent_initialization=spread",
        "training.dropout.layers=0.2",
    ],
    "layers that do not add up": ["model.residual=false"],
    "two layers": ["model.layers=2", "training.dropout.layers=0.3"],
    "sentence mode": ["sequences.mode=sentence"],
    "window of 20": ["training.window_length=20"],
    "window of 70": ["training.window_length=70"],
    "batch of 20": ["training.batch_size=20"],
    "batch of 40": ["training.batch_size=40"],
    "batch of 80": ["training.batch_size=80"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--preset", default="ptb")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--only", nargs="+", choices=list(ABLATIONS), default=list(ABLATIONS))
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.FIELD=VALUE", help="in every row")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("rnnlm").setLevel(logging.INFO)

    shared = [f"training.epochs={options.epochs}", *options.set]
    preset = build_config(options.preset, shared, options.corpus)
    print("| changed | valid | test | valid, × the preset | minutes |\n|---|---|---|---|---|", flush=True)
    first = None
    for name in options.only:
        config = build_config(options.preset, [*shared, *ABLATIONS[name]], options.corpus)
        if config == preset and ABLATIONS[name]:
            continue  # The preset already has the settings of this row.
        valid, test, minutes = measure(Home(options.home), config)
        first = first or valid
        print(f"| {name} | {valid:.2f} | {test:.2f} | {valid / first:.3f} | {minutes:.1f} |", flush=True)


def measure(home: Home, config: PipelineConfig) -> tuple[float, float, float]:
    """Return the validation and test perplexity of a run, and the minutes that its steps took."""
    dataset = prepare_dataset(home, config)
    run = run_training(home, config, dataset, untracked)
    scores = evaluate_run(home, dataset, run, config.evaluation).scores
    return scores["valid"].perplexity, scores["test"].perplexity, minutes_of_steps(RunFolder(run.folder).history)


def minutes_of_steps(history: Path) -> float:
    """Return how many minutes a run's steps took, without its evaluations and the pauses after interruptions."""
    tokens, seconds = 0.0, 0.0
    for line, _ in read_measurements(history):
        if line["kind"] == "training":
            metrics = line["metrics"]
            seconds += (metrics["trained_tokens"] - tokens) / metrics["tokens_per_second"]
            tokens = metrics["trained_tokens"]
    return seconds / 60


if __name__ == "__main__":
    main()
