"""The costs of training and generating with a model: speed and memory, measured side by side, and computed FLOPs.

Each model is measured in a process of its own, one at a time, in several rounds. So whatever else the machine does
meets all models, and the peak memory is that of one model. The fastest round counts.
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
BACKWARD_AND_FORWARD = 3  # the gradients of a product take two products


class TrainingCosts(Record):
    """The costs of one model on one machine: the best of ROUNDS rounds."""

    tokens_per_second: float  # trained
    peak_mebibytes: float  # resident memory of the process, with the interpreter and torch
    milliseconds_per_token: float  # generated, one text at a time


def measure_costs(configs: list[PipelineConfig], dataset: DatasetRecord, seconds: float) -> list[TrainingCosts]:
    """Measure costs in the order of the configurations. seconds: of training in each round."""
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
    """Train for some seconds and generate GENERATED_TOKENS tokens, in this process, on the CPU."""
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
    """Return the largest resident memory of this process so far.

    Linux counts its parent's memory in getrusage, from before the new program was loaded, but not in /proc, which no
    other system has.
    """
    if LINUX_STATUS.exists():
        (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", LINUX_STATUS.read_text(), flags=re.MULTILINE)
        return int(peak) / 1024
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def seconds_per_token(model: LanguageModel) -> float:
    weights = InferenceWeights(model)
    lengths = (GENERATED_TOKENS // 10, GENERATED_TOKENS)  # the first one warms up
    for length in lengths:
        sampling = Sampling(maximum_tokens=length, minimum_tokens=length)
        start = time.perf_counter()
        continue_ids(weights, [BOS], sampling, EOS)
    return (time.perf_counter() - start) / GENERATED_TOKENS


def training_flops_per_token(config: ModelConfig, vocabulary_size: int, classes: int | None) -> int:
    """Return the floating-point operations of training on one token: 3 · (2 · weights in products + state products).

    weights in products: all matrices of the layers and the readout, and the rows of the head that the loss computes.
    state products: what a layer computes with its state instead of with weights. A Transformer's attention takes
    4 · window · H, an mLSTM's memory, of d · d numbers a head, 6 · H · d. Element-wise functions are left out.
    classes: of the sampled loss; None: all of the vocabulary.
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
