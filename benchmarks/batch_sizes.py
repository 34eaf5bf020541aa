"""Measure the effects of the batch size on the gradient's noise, on speed and memory, and on how fast the loss falls.

python benchmarks/batch_sizes.py [CORPUS] [--sizes 1 4 16 64 128] [--rates …] [--seconds 30] [--picture FILE.png]

The noise is the squared distance between a batch's gradient and the gradient of a large sample of the text, divided by
the squared norm of the sample's gradient. It is measured after a short training run. For each batch size and learning
rate, a model is then trained twice with the exact loss: on as many tokens as the slowest size processes in `seconds`,
and on as many as this size processes in `seconds` at its measured speed. The table shows the best rate.
"""

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from process_memory import measured
from torch.nn.utils import parameters_to_vector
from untracked import untracked

from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.display.plots import BLUE, BROWN, GREEN, ORANGE, RED, new_figure, set_titles
from rnnlm.losses.loss import exact_cross_entropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model, load_model
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.training.history import read_series
from rnnlm.training.process_group import SINGLE_PROCESS
from rnnlm.training.train import training_batches
from rnnlm.training.training_run import run_training
from rnnlm.training.training_speed import training_speed

CPU = torch.device("cpu")
SPEED_SECONDS = 5.0
# The number of batches in the large sample of the text, and the number of sentences in each of them.
POOL_BATCHES, LARGEST_BATCH = 24, 128
COLOURS = (RED, ORANGE, GREEN, BLUE, BROWN)


@dataclass
class Row:
    size: int  # The number of sentences per batch.
    noise: float
    speed: float  # The training speed in tokens per second.
    memory: float  # The peak memory in MiB.
    # The validation perplexity after a fixed number of tokens, and the best learning rate.
    after_tokens: tuple[float, float]
    after_seconds: tuple[float, float]
    # The learning curve as two lists: seconds and validation perplexities.
    curve: tuple[list[float], list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", default="python-docs")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 4, 16, 64, 128])
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3, 4e-3, 8e-3])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--picture", type=Path)
    # The script passes this option to the process whose memory it measures.
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.home:
        (size,) = options.sizes
        config = config_of(options.corpus, size, "training.epochs=1")
        dataset = prepare_dataset(Home(options.home), config)
        print(speed_of(config, dataset, seconds=2.0))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Home(Path(folder)), options.corpus, options.sizes, options.rates, options.seconds)
    if options.picture:
        draw(rows, options.picture)


def measure(home: Home, corpus: str, sizes: list[int], rates: list[float], seconds: float) -> list[Row]:
    configs = {size: config_of(corpus, size, "training.epochs=1") for size in sizes}
    dataset = prepare_dataset(home, configs[sizes[0]])
    speeds = {size: speed_of(config, dataset, SPEED_SECONDS) for size, config in configs.items()}
    fewest = int(min(speeds.values()) * seconds)
    model = trained_model(home, corpus, dataset, fewest)
    mean = mean_gradient(model, configs[sizes[0]], dataset)
    print(f"| sentences | noise | tokens/s | peak MiB | after {fewest:,} tokens | after {seconds:g} s |")
    print("|---|---|---|---|---|---|", flush=True)
    rows = []
    for size in sizes:
        command = [sys.executable, __file__, corpus, "--sizes", str(size), "--home", str(home.root)]
        by_tokens = [trained(home, corpus, dataset, size, rate, fewest) for rate in rates]
        by_seconds = [trained(home, corpus, dataset, size, rate, int(speeds[size] * seconds)) for rate in rates]
        tokens, perplexities = min(by_seconds, key=lambda curve: curve[1][-1])
        row = Row(
            size=size,
            noise=gradient_noise(model, configs[size], dataset, mean),
            speed=speeds[size],
            memory=measured(command)[0],
            after_tokens=min((curve[1][-1], rate) for curve, rate in zip(by_tokens, rates, strict=True)),
            after_seconds=min((curve[1][-1], rate) for curve, rate in zip(by_seconds, rates, strict=True)),
            curve=([token / speeds[size] for token in tokens], perplexities),
        )
        rows.append(row)
        print(
            f"| {size} | {row.noise:.3g} | {row.speed:,.0f} | {row.memory:,.0f} "
            f"| {row.after_tokens[0]:.1f} (rate {row.after_tokens[1]:g}) "
            f"| {row.after_seconds[0]:.1f} (rate {row.after_seconds[1]:g}) |",
            flush=True,
        )
    return rows


def config_of(corpus: str, size: int, *settings: str) -> PipelineConfig:
    """Return the default preset with 128 units, 2,000 word pieces, the exact loss and batches of `size` sentences."""
    fixed = ["tokenizer.vocabulary_size=2000", "model.hidden_size=128", "model.counts=0", "training.loss.kind=exact"]
    return build_config("default", [*fixed, f"training.batch_size={size}", *settings], corpus)


def speed_of(config: PipelineConfig, dataset: DatasetRecord, seconds: float) -> float:
    model = build_model(config.model, dataset.vocabulary_size, seed=0)
    return training_speed(model, config, dataset, CPU, seconds)


def trained(
    home: Home, corpus: str, dataset: DatasetRecord, size: int, rate: float, tokens: int
) -> tuple[list[float], list[float]]:
    """Train a model, and return the trained tokens and validation perplexities at eight points of the run."""
    settings = [f"training.maximum_tokens={tokens}", "training.epochs=1000", "training.validation.evaluations=8"]
    config = config_of(corpus, size, *settings, f"training.optimizer.learning_rate={rate}")
    run = run_training(home, config, dataset, untracked)
    seen, losses = read_series(RunFolder(run.folder).history, "validation_nll_nats_per_token")
    return seen, [math.exp(loss) for loss in losses]


def trained_model(home: Home, corpus: str, dataset: DatasetRecord, tokens: int) -> LanguageModel:
    config = config_of(corpus, 16, f"training.maximum_tokens={tokens}", "training.epochs=1000")
    return load_model(run_training(home, config, dataset, untracked).model_folder)


def gradients(model: LanguageModel, config: PipelineConfig, dataset: DatasetRecord, count: int) -> list[torch.Tensor]:
    """Return the model's gradient for each of the first `count` batches of an epoch, as one vector per batch."""
    found = []
    for batch in islice(training_batches(config.training, dataset, SINGLE_PROCESS).batches(), count):
        model.zero_grad()
        exact_cross_entropy(model, model.hidden(batch.input_ids)[0], batch.target_ids).backward()
        found.append(parameters_to_vector([parameter.grad for parameter in model.parameters()]))
    return found


def mean_gradient(model: LanguageModel, config: PipelineConfig, dataset: DatasetRecord) -> torch.Tensor:
    training = config.training.model_copy(update={"batch_size": LARGEST_BATCH})
    large = gradients(model, config.model_copy(update={"training": training}), dataset, POOL_BATCHES)
    return torch.stack(large).mean(dim=0)


def gradient_noise(model: LanguageModel, config: PipelineConfig, dataset: DatasetRecord, mean: torch.Tensor) -> float:
    squares = [float((one - mean).square().sum()) for one in gradients(model, config, dataset, POOL_BATCHES)]
    return sum(squares) / len(squares) / float(mean.square().sum())


def draw(rows: list[Row], picture: Path) -> None:
    figure, (noise, curves) = new_figure((11, 4.2), columns=2)
    noise.loglog([row.size for row in rows], [row.noise for row in rows], color=BLUE, marker="o")
    set_titles(noise, "Noise of the gradient", "sentences in a batch", "squared, relative to the gradient")
    for row, colour in zip(rows, COLOURS, strict=False):
        curves.plot(
            *row.curve, color=colour, marker="o", markersize=4, label=f"{row.size}, rate {row.after_seconds[1]:g}"
        )
    curves.set_yscale("log")
    curves.legend(title="sentences", frameon=False)
    set_titles(curves, "Validation perplexity", "seconds of training")
    figure.savefig(picture)


if __name__ == "__main__":
    main()
