"""Measure speed and memory of a training step in comparison with the step of a textbook (benchmarks/textbook.py).

    python benchmarks/train.py [--device cpu|cuda] [--batch 128] [--hidden 128] [--rounds 7] [--json]

The script needs only torch, transformers, numpy and pydantic. All rows are measured in turn in one process, so that
other load on the machine affects all of them. tokens_per_second is the median over the rounds, and ratio is the median
of the ratios to the textbook's step in the same round. The allocator keeps freed memory in all rows, including that of
the textbook's step. Memory is the peak of three steps in a separate process, minus the memory after the imports. On a
GPU, there are also rows for captured steps. Below the table is the utilization of each step, relative to the rate of a
single matrix product.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textbook import TextbookLanguageModel, TextbookTrainer

from rnnlm.config import ModelConfig
from rnnlm.extensions.comparison.training_costs import peak_mebibytes as process_peak
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.devices import float32_products, keep_freed_memory
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.shift import shifted
from rnnlm.training.captured_step import CapturedUpdater
from rnnlm.training.optimizer_step import BatchLoss, Updater, take_step
from rnnlm.training.optimizers import LazyAdamW

# The sizes of the model and the batch in the textbook (benchmarks/textbook.py).
VOCABULARY, HIDDEN, LAYERS, BATCH, TIME = 32_000, 128, 2, 128, 29
SAMPLED_CLASSES = 1_024
FAST = f"sampled {SAMPLED_CLASSES}"
CAPTURED = ", captured"  # The suffix for rows whose step is captured and replayed as a CUDA graph.
TAUGHT = ", taught"  # The suffix for rows whose step also trains on the targets of a teacher.
# The number of targets per token is 1 + DRAWS_PER_TOKEN in distillation/teacher.py. That module needs DuckDB, so it is
# not imported.
TAUGHT_TARGETS = 9
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROWS = (
    "textbook",
    *(f"{loss} {precision}" for loss in ("exact", FAST) for precision in PRECISIONS),
    f"{FAST} float32{TAUGHT}",
)
GPU_ROWS = (*ROWS, "exact bfloat16" + CAPTURED, f"{FAST} bfloat16{CAPTURED}")
TrainingStep = Callable[[Batch], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=BATCH, help="sequences")
    parser.add_argument("--hidden", type=int, default=HIDDEN)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", nargs="+", choices=GPU_ROWS, help="the first is the yardstick")
    parser.add_argument("--json", action="store_true", help="a list of rows instead of a table")
    parser.add_argument("--memory-of", choices=GPU_ROWS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rows = options.rows or list(GPU_ROWS if options.device == "cuda" else ROWS)
    keep_freed_memory()
    if options.memory_of:
        print(memory_of_a_step(options.memory_of, options))
        return
    rows = measure(options)
    print(json.dumps(rows, indent=1) if options.json else table(rows))
    if options.device == "cuda" and not options.json:
        print(shares_of_matrix_rate(rows, options.hidden))


def measure(options: argparse.Namespace) -> list[dict[str, object]]:
    steps = {name: training_step(name, options) for name in options.rows}
    batches = [zipf_batch(options.batch, seed, options.device) for seed in range(4)]
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        for _ in range(3):
            # The first step chooses kernels, allocates memory and records CUDA graphs, so it is not timed.
            timed(step, batches[:1], options.device)
    for _ in range(options.rounds):
        for name, step in steps.items():
            speeds[name].append(timed(step, batches, options.device))
    yardstick = speeds[options.rows[0]]
    return [
        {
            "name": name,
            "device": options.device,
            "tokens_per_second": round(statistics.median(speeds[name])),
            "ratio": round(statistics.median(map(float.__truediv__, speeds[name], yardstick)), 2),
            "peak_mebibytes": peak_mebibytes(name, options),
        }
        for name in steps
    ]


def timed(step: TrainingStep, batches: list[Batch], device: str) -> float:
    """Return the training speed in predicted tokens per second."""
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    if device == "cuda":
        torch.cuda.synchronize()
    return sum(batch.predicted_tokens for batch in batches) / (time.perf_counter() - start)


def training_step(name: str, options: argparse.Namespace) -> TrainingStep:
    torch.manual_seed(0)
    if name == "textbook":
        trainer = TextbookTrainer(TextbookLanguageModel(VOCABULARY, options.hidden, LAYERS).to(options.device))
        return lambda batch: trainer.step(batch.input_ids, batch.target_ids)
    model = build_model(
        ModelConfig(hidden_size=options.hidden, layers=LAYERS, tie_embeddings=False, recurrent_initialization="xavier"),
        VOCABULARY,
        seed=0,
    )
    model.to(options.device)
    kind, precision = name.removesuffix(CAPTURED).removesuffix(TAUGHT).rsplit(" ", 1)
    for cell in model.stack.cells:
        cell.precision = PRECISIONS[precision]
    loss: Loss
    if kind == FAST:
        loss = SampledCrossEntropy(zipf(), SAMPLED_CLASSES, PRECISIONS[precision])
        model.embedding.sparse = options.device == "cpu"
    else:
        loss = ChunkedCrossEntropy(PRECISIONS[precision])
    optimizer = LazyAdamW(model.parameters(), lr=0.001, fused=True)
    generator = torch.Generator().manual_seed(0)
    batch_loss = BatchLoss(model, loss)
    kind_of_updater = CapturedUpdater if name.endswith(CAPTURED) else Updater
    updater = kind_of_updater(batch_loss, optimizer, 1.0)

    def step(batch: Batch) -> None:
        if name.endswith(TAUGHT):
            drawn = [batch.target_ids.roll(rows, 0) for rows in range(TAUGHT_TARGETS)]
            batch = replace(batch, target_ids=torch.stack(drawn, dim=-1))
        with float32_products(precision):
            take_step(updater, batch, None, generator)

    return step


def zipf() -> np.ndarray:
    """Return word frequencies by the Zipf-Mandelbrot law, as an array of shape (V,). `<pad>` and `<bos>` have 0."""
    frequencies = 1.0 / (np.arange(VOCABULARY) + 2.7)
    frequencies[[0, 2]] = 0.0
    return frequencies / frequencies.sum()


def zipf_batch(size: int, seed: int, device: str) -> Batch:
    """Return a batch of random words on `device`, where a training run also keeps its text."""
    ids = np.random.default_rng(seed).choice(VOCABULARY, (size, TIME + 1), p=zipf())
    text = torch.from_numpy(ids).to(device)
    input_ids, target_ids = shifted(text)
    return Batch(input_ids.contiguous(), target_ids.contiguous(), False, size * TIME)


def peak_mebibytes(name: str, options: argparse.Namespace) -> float:
    command = [sys.executable, str(Path(__file__).resolve()), "--memory-of", name]
    command += [f"--device={options.device}", f"--batch={options.batch}", f"--hidden={options.hidden}"]
    return round(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout), 1)


def memory_of_a_step(name: str, options: argparse.Namespace) -> float:
    """Return the peak memory of three training steps in MiB, for model, gradients, optimizer and activations."""
    before = torch.cuda.memory_allocated() / 2**20 if options.device == "cuda" else process_peak()
    step = training_step(name, options)
    for seed in range(3):
        step(zipf_batch(options.batch, seed, options.device))
    if options.device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20 - before
    return process_peak() - before


def shares_of_matrix_rate(rows: list[dict[str, object]], hidden: int) -> str:
    """Return the rates of the exact steps as fractions of the rate of a bfloat16 product of 8,192 x 8,192 matrices."""
    size, count = 8_192, 20
    left, right = torch.randn(2, size, size, device="cuda", dtype=torch.bfloat16)
    for repeats in (3, count):  # The first iteration is a warm-up of three products.
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            left @ right
        torch.cuda.synchronize()
    rate = 2 * size**3 * count / (time.perf_counter() - start)
    # Floating-point operations per token. Each weight needs 2 in the forward pass and 4 in the backward pass.
    operations = 3 * 2 * (hidden * VOCABULARY + LAYERS * 2 * hidden * hidden)
    lines = [f"\nmatrix product alone: {rate / 1e12:.0f} TFLOP/s"]
    for row in rows:
        if str(row["name"]).startswith("exact"):
            reached = operations * float(str(row["tokens_per_second"]))
            lines.append(f"{row['name']}: {reached / 1e12:.1f} TFLOP/s, {reached / rate:.1%} of it")
    return "\n".join(lines)


def table(rows: list[dict[str, object]]) -> str:
    columns = ("name", "device", "tokens_per_second", "ratio", "peak_mebibytes")
    heads = f"| step | device | tokens/s | × {rows[0]['name']} | peak, MiB |\n|---|---|---|---|---|"
    return "\n".join([heads, *("| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows)])


if __name__ == "__main__":
    main()
