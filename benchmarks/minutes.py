"""Measure the validation perplexities of models with several sizes and dropouts, trained for the same time.

python benchmarks/minutes.py CORPUS [--minutes 3] [--units 256 384 512] [--dropout 0.1 0.2 0.4] [--set SETTING …]

The first row has the size and dropout that `rnnlm run --minutes` chooses. Each row is a separate training run. Its
number of tokens is the number that this machine can process in the given minutes.
"""

import argparse
import itertools
import tempfile
from pathlib import Path

from untracked import untracked

from rnnlm.config import EvaluationConfig, PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.time_budget import fit_to_minutes
from rnnlm.training.training_run import run_training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--units", type=int, nargs="*", default=[])
    parser.add_argument("--dropout", type=float, nargs="*", default=[])
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    print("| units | dropout | epochs | rate | network | counts | mixed |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        trials = itertools.product(options.units or [None], options.dropout or [None])
        for units, share in [(None, None), *(trial for trial in trials if trial != (None, None))]:
            sizes = [] if units is None else [f"model.hidden_size={units}"]
            shares = [] if share is None else [f"training.dropout.{kind}={share}" for kind in ("inputs", "outputs")]
            settings = [f"training.minutes={options.minutes}", *options.set, *sizes, *shares]
            config = build_config("default", settings, options.corpus)
            dataset = prepare_dataset(home, config)
            print(trial_row(home, fit_to_minutes(home, config, dataset), dataset), flush=True)


def trial_row(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> str:
    run = run_training(home, config, dataset, untracked)
    valid = evaluate_run(home, dataset, run, EvaluationConfig(splits=("valid", "test"))).scores["valid"]
    rate = config.training.optimizer.peak_rate(config.model.kind, config.model.units)
    parts = [f"{part.perplexity:.1f}" if part else "" for part in (valid.network, valid.counts, valid)]
    epochs = run.trained_tokens / dataset.predicted_tokens["train"]
    return (
        f"| {config.model.units} | {config.training.dropout.resolved().inputs} | {epochs:.1f} | {rate:.2g} | "
        + " | ".join(parts)
        + " |"
    )


if __name__ == "__main__":
    main()
