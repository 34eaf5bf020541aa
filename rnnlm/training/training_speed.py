"""The measurement of a configuration's training speed on this machine, in tokens per second. The result is stored."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor

from rnnlm.config import PipelineConfig, result_settings
from rnnlm.config.moved_settings import flatten
from rnnlm.models.devices import choose_device, float32_products, machine_facts
from rnnlm.models.dropout import Dropout
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.runtime.recent_times import is_recent
from rnnlm.sequences.batches import Batch
from rnnlm.sequences.unigram import unigram_counts, unigram_log_probabilities
from rnnlm.storage.home import Home, digest_of
from rnnlm.storage.json_results import read_stored_json, write_json_once
from rnnlm.storage.records import DatasetRecord
from rnnlm.training.captured_step import make_updater
from rnnlm.training.further_targets import further_targets
from rnnlm.training.optimizer_step import BatchLoss, choose_loss, take_step, with_usable_precision
from rnnlm.training.optimizers import prepare_updates
from rnnlm.training.process_group import SINGLE_PROCESS
from rnnlm.training.seeding import step_generator
from rnnlm.training.train import holder, training_batches

# The fraction of a training run's minutes that measuring the speed of one model size takes, up to MEASURED_SECONDS. A
# short measurement is enough for a short run, because training plans its length again (pace.py).
MEASURED_SHARE = 0.01
MEASURED_SECONDS = 1.0
# The seconds for which a measured speed is reused. The speed is then measured again, because the machine may have been
# busy.
SPEED_SECONDS = 86_400
SPEED_IGNORES = ("seed", "minutes", "epochs", "maximum_tokens")  # Settings on which the speed does not depend.
# The number of steps before the measurement. In these steps, a GPU compiles and records its kernels.
WARM_UP_STEPS = {"cuda": 3}


def remembered_speed(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> float:
    """Return the result of measured_speed(), which is called at most once in SPEED_SECONDS.

    The stored speed is used on this machine for all texts with the same settings and rows of about the same length. The
    speed may differ a little from text to text, but training plans its length again (pace.py). A speed that was
    measured for a shorter run is measured again.
    """
    settings = flatten(result_settings(config.training) | {"model": result_settings(config.model)})
    shape = {path: value for path, value in settings.items() if path not in SPEED_IGNORES}
    row_length = dataset.predicted_tokens["train"] / max(1, dataset.sequence_counts["train"])
    rows = [dataset.mode, dataset.vocabulary_size, round(math.log2(max(1.0, row_length)))]
    key = digest_of([machine_facts(choose_device(config.training.device)), shape, rows])
    path = home.starts / f"speed-{key[:16]}.json"
    is_old = path.exists() and not is_recent(path.stat().st_mtime, SPEED_SECONDS)
    seconds = measured_seconds(config.training.minutes)
    is_short = (read_stored_json(path) or {}).get("seconds", 0.0) < seconds

    def measure() -> dict[str, float]:
        return {"speed": measured_speed(config, dataset, seconds), "seconds": seconds}

    stored, _ = write_json_once(home, path, key, measure, force=is_old or is_short)
    return float(stored["speed"])


def measured_seconds(minutes: float | None) -> float:
    """Return the number of seconds for measuring the training speed of one model size.

    `minutes` is the length of the training run.
    """
    return MEASURED_SECONDS if minutes is None else min(MEASURED_SECONDS, MEASURED_SHARE * 60 * minutes)


def measured_speed(config: PipelineConfig, dataset: DatasetRecord, seconds: float) -> float:
    """Return the training speed of one process on this machine in tokens per second."""
    unigram = unigram_log_probabilities(dataset)
    model = build_model(config.model, dataset.vocabulary_size, config.training.seed, unigram)
    return training_speed(model, config, dataset, choose_device(config.training.device), seconds)


def training_speed(
    model: LanguageModel, config: PipelineConfig, dataset: DatasetRecord, device: torch.device, seconds: float
) -> float:
    """Return the training speed of this process in tokens per second, without validation and checkpoints.

    The training steps change the model's weights.
    """
    training = with_usable_precision(config.training, device)
    model.to(device).train()
    optimizer = prepare_updates(model, training)
    loss = choose_loss(training, unigram_counts(dataset))
    dropout = Dropout(**training.dropout.resolved().model_dump())
    clip_norm, widths_vary = training.optimizer.clip_norm, dataset.mode == "sentence"
    updater = make_updater(BatchLoss(model, loss, dropout), optimizer, clip_norm, widths_vary=widths_vary)
    batches = repeated_batches(config, dataset, device)
    warm_up_steps = WARM_UP_STEPS.get(device.type, 1)
    state: Tensor | None = None
    step, tokens, spent = 0, 0, 0.0
    with float32_products(training.product_precision):
        while spent < seconds:
            start, shapes, count = time.perf_counter(), updater.recorded_shapes, 0
            for batch in islice(batches, warm_up_steps if step == 0 else steps_between_waits(device)):
                taken = take_step(updater, batch, state, step_generator(training.seed, step))
                state, step, count = taken.state, step + 1, count + batch.predicted_tokens
            taken.loss.item()  # Reading the loss waits until the device has finished its steps.
            # A step that records a CUDA graph is not timed, because the recording takes longer than many steps.
            if step > warm_up_steps and updater.recorded_shapes == shapes:
                spent, tokens = spent + time.perf_counter() - start, tokens + count
    return tokens / spent


def steps_between_waits(device: torch.device) -> int:
    """Return the number of steps after which the measurement waits for the device.

    The measurement waits for a GPU as rarely as training, so that Python can prepare further steps meanwhile.
    """
    return 16 if device.type == "cuda" else 1


def repeated_batches(config: PipelineConfig, dataset: DatasetRecord, device: torch.device) -> Iterator[Batch]:
    """Yield the training batches endlessly. Each token has as many targets as in training."""
    further = further_targets(config.training)
    count = 1 if further is None else 1 + further.count
    held_by = holder(config.training, dataset, device)
    while True:
        for batch in training_batches(config.training, dataset, SINGLE_PROCESS, device=held_by).batches():
            targets = batch.target_ids if count == 1 else batch.target_ids[..., None].expand(-1, -1, count)
            yield replace(batch, target_ids=targets)
