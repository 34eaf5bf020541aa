"""Measure the speed of whole training steps on a GPU, and profile them. benchmarks/gpu_check.sh runs this script.

    python benchmarks/gpu_check.py speed|profile [--device cuda|cpu] [--out FOLDER]

`speed` prints the tokens per second for six shapes of models and batches. For each shape it measures the training step
of a textbook (benchmarks/textbook.py), cuDNN's recurrence with torch's loss (plain and as one CUDA graph), and rnnlm's
step (plain and captured). The utilization is relative to the rate of a single matrix product, which is measured first.
`profile` writes how much time the kernels of three captured steps take. With --device cpu, the shapes are tiny, which
only tests the script.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textbook import TextbookLanguageModel, TextbookTrainer

from rnnlm.config import ModelConfig, TrainingConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.models.devices import float32_products
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch
from rnnlm.training.captured_step import CapturedUpdater
from rnnlm.training.optimizer_step import BatchLoss, Updater, take_step
from rnnlm.training.optimizers import prepare_updates
from rnnlm.training.seeding import step_generator

Shape = tuple[int, int, int, int, int]  # The numbers of classes, units, layers, rows, and tokens per row.
SHAPES: tuple[Shape, ...] = (
    (32_000, 128, 2, 128, 29),  # The shape of the model in the textbook (benchmarks/textbook.py).
    (32_000, 128, 2, 1_024, 29),
    (10_000, 256, 1, 64, 35),
    (32_000, 256, 2, 512, 64),
    (8_000, 256, 2, 512, 64),
    (10_000, 1_024, 1, 128, 35),
)
TINY_SHAPES: tuple[Shape, ...] = ((50, 16, 2, 3, 4), (60, 24, 1, 2, 5))
MEASURED_SHARE_SECONDS, FEWEST_STEPS, MOST_STEPS = 0.4, 3, 400
OneStep = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "profile"])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}", flush=True)
    {"speed": print_speeds, "profile": write_profile}[options.part](options)


def print_speeds(options: argparse.Namespace) -> None:
    rate = matrix_rate(options.device)
    print(f"bfloat16 matrix product alone: {rate / 1e12:.3g} TFLOP/s", flush=True)
    for shape in SHAPES if options.device == "cuda" else TINY_SHAPES:
        classes, units, layers, rows, tokens = shape
        print(f"{layers} x {units} units, {classes:,} classes, {rows} x {tokens} tokens", flush=True)
        # Floating-point operations per token. Each weight needs 2 in the forward pass and 4 in the backward pass.
        operations = 6 * (classes * units + layers * 2 * units * units)
        first = None
        for row, make in ROWS.items():
            try:
                speed = rows * tokens / seconds_of(make(shape, options.device), options.device)
            # If a shape fails, for example for lack of memory, the table continues with the next shape.
            except Exception as error:
                print(f"  {row}: FAILED, {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            first = first or speed
            share = operations * speed / rate
            print(f"  {row:24} {speed:>12,.0f} tokens/s, x {speed / first:5.2f}, {share:6.1%} of the rate", flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()


def seconds_of(step: OneStep, device: str) -> float:
    """Return the median time of a training step in seconds over three rounds.

    Python does not wait for the GPU between the steps of a round, as in training.
    """

    def timed(count: int) -> float:
        wait(device)
        start = time.perf_counter()
        for _ in range(count):
            step()
        wait(device)
        return (time.perf_counter() - start) / count

    timed(FEWEST_STEPS)  # The first steps compile kernels and record CUDA graphs, so they are not timed.
    count = int(min(MOST_STEPS, max(FEWEST_STEPS, MEASURED_SHARE_SECONDS / 3 / timed(FEWEST_STEPS))))
    return statistics.median(timed(count) for _ in range(3))


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def matrix_rate(device: str) -> float:
    """Return the rate of a bfloat16 matrix product in floating-point operations per second."""
    size = 8_192 if device == "cuda" else 128
    left, right = torch.randn(2, size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / seconds_of(lambda: left @ right, device)


def textbook_step(shape: Shape, device: str) -> OneStep:
    classes, units, layers, *_ = shape
    torch.manual_seed(0)
    trainer = TextbookTrainer(TextbookLanguageModel(classes, units, layers).to(device))
    batch = random_batch(shape, device)
    return lambda: trainer.step(batch.input_ids, batch.target_ids)


def cudnn_step(shape: Shape, device: str, as_graph: bool) -> OneStep:
    """Return a step with torch.nn.RNN in TF32 and torch's cross-entropy of bfloat16 logits."""
    classes, units, layers, *_ = shape
    torch.manual_seed(0)
    embedding, head = nn.Embedding(classes, units).to(device), nn.Linear(units, classes).to(device)
    network = nn.RNN(units, units, layers, batch_first=True).to(device)
    parameters = [*embedding.parameters(), *network.parameters(), *head.parameters()]
    rate = torch.tensor(0.001, device=device)
    optimizer = torch.optim.AdamW(parameters, lr=rate, fused=True, capturable=device == "cuda")
    batch = random_batch(shape, device)
    targets = batch.target_ids.flatten()

    def step() -> None:
        with float32_products("bfloat16"):
            optimizer.zero_grad(set_to_none=True)
            hidden = network(embedding(batch.input_ids))[0].flatten(0, 1).bfloat16()
            logits = functional.linear(hidden, head.weight.bfloat16(), head.bias.bfloat16())
            functional.cross_entropy(logits.float(), targets).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()

    if not as_graph or device != "cuda":
        return step
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def our_step(shape: Shape, device: str, kind: type[Updater]) -> OneStep:
    classes, units, layers, *_ = shape
    settings = {"hidden_size": units, "layers": layers, "tie_embeddings": False, "residual": False}
    model = build_model(ModelConfig(**settings, recurrent_initialization="orthogonal"), classes, seed=0)
    model.to(device).train()
    optimizer = prepare_updates(model, TrainingConfig(precision="bfloat16", loss={"kind": "exact"}))
    updater = kind(BatchLoss(model, ChunkedCrossEntropy(torch.bfloat16)), optimizer, 1.0)
    batch, generator = random_batch(shape, device), step_generator(0, 0)

    def step() -> None:
        with float32_products("bfloat16"):
            take_step(updater, batch, None, generator)

    step()
    if isinstance(updater, CapturedUpdater) and not updater.recorded_shapes:
        raise RuntimeError("the step was not captured as a CUDA graph")
    return step


ROWS: dict[str, Callable[[Shape, str], OneStep]] = {
    "textbook": textbook_step,
    "cuDNN": lambda shape, device: cudnn_step(shape, device, False),
    "cuDNN, one CUDA graph": lambda shape, device: cudnn_step(shape, device, True),
    "ours, plain": lambda shape, device: our_step(shape, device, Updater),
    "ours, captured": lambda shape, device: our_step(shape, device, CapturedUpdater),
}


def random_batch(shape: Shape, device: str) -> Batch:
    classes, _, _, rows, tokens = shape
    ids = torch.randint(3, classes, (rows, tokens + 1), generator=torch.Generator().manual_seed(0)).to(device)
    return Batch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), False, rows * tokens)


def write_profile(options: argparse.Namespace) -> None:
    for number, shape in enumerate(SHAPES if options.device == "cuda" else TINY_SHAPES):
        if number == 2:
            continue
        try:
            step = our_step(shape, options.device, CapturedUpdater)
        except RuntimeError as error:
            print(f"{error}: its plain step", flush=True)
            step = our_step(shape, options.device, Updater)
        for _ in range(3):
            step()
        wait(options.device)
        activities = [torch.profiler.ProfilerActivity.CPU]
        if options.device == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(3):
                step()
            wait(options.device)
        by = "self_device_time_total" if options.device == "cuda" else "self_cpu_time_total"
        text = profile.key_averages().table(sort_by=by, row_limit=40, max_name_column_width=90)
        name = "x".join(map(str, shape))
        (options.out / f"profile-{name}.txt").write_text(text, encoding="utf-8")
        print(f"== three steps of {name}", *text.splitlines()[:30], sep="\n", flush=True)


if __name__ == "__main__":
    main()
