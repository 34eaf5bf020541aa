"""Measure the validation perplexity of Elman networks of many widths and depths, to find those that cannot be trained.

python benchmarks/stacks.py CORPUS [--widths 64 256 1024] [--depths 1 2 4] [--tokens 200000] [--set SETTING …]

The table has one row per width and one column per depth. Without --set, the settings are the defaults. The tokens are
word pieces with --set tokenizer.kind=bpe (the default), characters with --set tokenizer.kind=char, and words with --set
tokenizer.kind=word.
"""

import argparse
import tempfile
from pathlib import Path

from untracked import untracked

from rnnlm.config.presets import build_config
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    print("| units | " + " | ".join(f"{depth} layers" for depth in options.depths) + " |", flush=True)
    print("|---|" + "---|" * len(options.depths), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for width in options.widths:
            cells = []
            for depth in options.depths:
                sizes = [f"model.hidden_size={width}", f"model.layers={depth}"]
                budget = [f"training.maximum_tokens={options.tokens}", "training.epochs=100"]
                config = build_config("default", [*budget, *sizes, *options.set], options.corpus)
                dataset = prepare_dataset(home, config)
                run = run_training(home, config, dataset, untracked)
                cells.append(f"{run.best_validation_perplexity:.1f}")
            print(f"| {width} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
