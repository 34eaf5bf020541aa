"""Measure how fast a model trains and generates text, and how much memory it needs, and compute its FLOPs.

The models are measured one at a time, each in a separate process, in several rounds. Other load on the machine
therefore affects all models alike, and the peak memory belongs to one model. The fastest round is reported.
"""

import multiprocessing
import re
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from torch import nn

from rnnlm.config import ModelConfig, PipelineConfig
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_ids
from rnnlm.models.devices import keep_freed_memory
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mlstm import MLSTMCell
from rnnlm.models.model_factory import architecture, build_model
from rnnlm.models.transformer import TransformerBlock
from rnnlm.sequences.unigram import unigram_log_probabilities
from rnnlm.storage.records import DatasetRecord, Record
from rnnlm.tokenizers.text_tokenizer import BOS, EOS
from rnnlm.training.training_speed import training_speed

ROUNDS = 2
GENERATED_TOKENS = 200
LINUX_STATUS = Path("/proc/self/status")
# The number of matrix products of a training step for each product of a forward pass. The backward pass computes two
# more.
BACKWARD_AND_FORWARD = 3


class TrainingCosts(Record):
    """The costs of one model on one machine, each from the best of ROUNDS rounds."""

    tokens_per_second: float  # The training speed in trained tokens per second.
    peak_mebibytes: float  # The peak resident memory of the process, including the interpreter and torch.
    milliseconds_per_token: float  # The time per generated token if one text is generated at a time.


def measure_costs(configs: list[PipelineConfig], dataset: DatasetRecord, seconds: float) -> list[TrainingCosts]:
    """Measure the costs of each configuration, and return them in the same order.

    Each measurement trains for `seconds`.
    """
    spawn = multiprocessing.get_context("spawn")
    threads = torch.get_num_threads()
    rounds = []
    for _ in range(ROUNDS):
        results = []
        for config in configs:
            with ProcessPoolExecutor(1, spawn) as process:
                results.append(process.submit(measure_round, config, dataset, threads, seconds).result())
        rounds.append(results)
    return [best_round(list(results)) for results in zip(*rounds, strict=True)]


def best_round(rounds: list[TrainingCosts]) -> TrainingCosts:
    return TrainingCosts(
        tokens_per_second=max(one.tokens_per_second for one in rounds),
        peak_mebibytes=min(one.peak_mebibytes for one in rounds),
        milliseconds_per_token=min(one.milliseconds_per_token for one in rounds),
    )


def measure_round(config: PipelineConfig, dataset: DatasetRecord, threads: int, seconds: float) -> TrainingCosts:
    """Train a model for `seconds` and generate GENERATED_TOKENS tokens, in this process on the CPU."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    training = config.training
    model = build_model(config.model, dataset.vocabulary_size, training.seed, unigram_log_probabilities(dataset))
    speed = training_speed(model, config, dataset, torch.device("cpu"), seconds)
    peak = peak_mebibytes()
    return TrainingCosts(
        tokens_per_second=speed, peak_mebibytes=peak, milliseconds_per_token=1_000 * seconds_per_token(model.eval())
    )


def peak_mebibytes() -> float:
    """Return the peak resident memory of this process in MiB.

    On Linux the value comes from /proc, because getrusage there includes the memory of the parent process before exec.
    Other systems have no /proc.
    """
    if LINUX_STATUS.exists():
        (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", LINUX_STATUS.read_text(), flags=re.MULTILINE)
        return int(peak) / 1024
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes on macOS, and in KiB on other systems.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def seconds_per_token(model: LanguageModel) -> float:
    weights = InferenceWeights(model)
    lengths = (GENERATED_TOKENS // 10, GENERATED_TOKENS)  # The first text is shorter, because it is only a warm-up.
    for length in lengths:
        sampling = Sampling(maximum_tokens=length, minimum_tokens=length)
        start = time.perf_counter()
        continue_ids(weights, [BOS], sampling, EOS)
    return (time.perf_counter() - start) / GENERATED_TOKENS


def training_flops_per_token(config: ModelConfig, vocabulary_size: int, classes: int | None) -> int:
    """Return the floating-point operations of training on one token: 3 · (2 · weights in products + state products).

    The weights in products are all matrices of the layers and the readout, and the rows of the output layer that the
    loss computes. State products do not involve weights: 4 · window · H for the attention of a Transformer, and 6 · H ·
    d for the memory of an mLSTM, which has d · d numbers per head. Element-wise functions are left out. `classes` is
    the number of classes of the sampled loss, or None if the loss covers the whole vocabulary.
    """
    with torch.device("meta"):
        model = LanguageModel(architecture(config, vocabulary_size))
    layers = [*model.stack.parameters(), *model.readout.parameters()]
    weights = sum(matrix.numel() for matrix in layers if matrix.dim() > 1)
    weights += min(vocabulary_size, (classes or vocabulary_size) + 1) * model.head.weight.shape[1]
    return BACKWARD_AND_FORWARD * (2 * weights + sum(state_products(one, config) for one in model.stack.modules()))


def state_products(module: nn.Module, config: ModelConfig) -> int:
    if isinstance(module, TransformerBlock):
        return 4 * config.attention_window * config.units
    if isinstance(module, MLSTMCell):
        return 6 * config.units * module.size
    return 0
