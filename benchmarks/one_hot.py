"""Measure why an embedding is better than one-hot characters, by the validation perplexity at several one-hot scales.

python benchmarks/one_hot.py TEXT [--scales 1 4 16 32] [--units 128] [--epochs 1]

The product of a one-hot row and W is a row of W, and in a step AdamW changes each weight by about the learning rate. If
the one-hot rows are scaled by c, a step changes the layer's input c times as much, as if the learning rate of W were c
times as high. The last row of the table is an embedding.
"""

import argparse
import tempfile
from pathlib import Path

from torch import Tensor, nn
from untracked import untracked

from rnnlm.config.presets import build_config
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--scales", type=float, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    sizes = [f"model.hidden_size={options.units}", f"training.epochs={options.epochs}", "model.counts=0"]
    print("| input | validation perplexity |\n|---|---|")
    for scale in options.scales:
        print(f"| one-hot, {scale:g} | {perplexity(options.text, sizes, scale):.2f} |", flush=True)
    print(f"| embedding | {perplexity(options.text, [*sizes, 'model.input=embedding'], 1):.2f} |")


def perplexity(text: str, settings: list[str], scale: float) -> float:
    def scaled(tensor: Tensor) -> Tensor:
        return identity(tensor).mul_(scale)

    config = build_config("shakespeare", [*settings, "training.validation.evaluations=1"], text)
    # Scale the rows that the model's initialization creates with nn.init.eye_.
    identity, nn.init.eye_ = nn.init.eye_, scaled
    try:
        with tempfile.TemporaryDirectory() as folder:
            home = Home(Path(folder))
            dataset = prepare_dataset(home, config)
            return run_training(home, config, dataset, untracked).best_validation_perplexity
    finally:
        nn.init.eye_ = identity


if __name__ == "__main__":
    main()
