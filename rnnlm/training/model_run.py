"""Train a model: a run of its network (training_run.py), here or in other processes, and the counts mixed with it."""

import logging
from functools import partial

from rnnlm.config import PipelineConfig, TrainingConfig
from rnnlm.evaluation.count_shares import fit_mixture
from rnnlm.evaluation.token_losses import stored_network_nll
from rnnlm.extension_points import plugged
from rnnlm.models.devices import choose_device
from rnnlm.models.mixture import save_mixture
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord, StartedFrom
from rnnlm.training.samples import sample_writer
from rnnlm.training.training_run import Launcher, OpenTracker, TrainElsewhere, train_run

logger = logging.getLogger(__name__)


def run_training(
    home: Home,
    config: PipelineConfig,
    dataset: DatasetRecord,
    open_tracker: OpenTracker,
    *,
    start: StartedFrom | None = None,
    force: bool = False,
    samples: bool = False,
) -> RunRecord:
    """train_run() with the configured counts and processes, and with samples at each validation if asked for."""
    return train_run(
        home,
        config,
        dataset,
        open_tracker,
        partial(add_counts, home, config, dataset),
        start=start,
        force=force,
        write_samples=sample_writer(config, dataset) if samples else None,
        train_elsewhere=elsewhere(config.training),
    )


def elsewhere(training: TrainingConfig) -> TrainElsewhere | None:
    """How other processes train, if an extension starts some; None: this one trains. DeviceError if it cannot."""
    launchers: list[Launcher] = plugged("launchers")
    train = next((found for launcher in launchers if (found := launcher(training)) is not None), None)
    if train is None:
        choose_device(training.device)
    return train


def add_counts(home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord) -> float | None:
    """Store what is mixed with the network's probabilities; the seconds of counting. None: the network is alone."""
    if not config.model.counts:
        return None
    network_nll_nats = None
    if config.model.has_network:
        network_nll_nats = stored_network_nll(home, dataset, run, "valid", config.evaluation.batch_size)
    mixture, seconds = fit_mixture(dataset, config.model.counts, network_nll_nats)
    save_mixture(mixture, run.model_folder)
    shares = ", ".join(f"{share:.2f}" for share in mixture.shares)
    told = "" if mixture.is_alone else f"; their shares by known context: {shares}"
    logger.info("training: counted %d-grams in %.1f s%s", config.model.counts, seconds, told)
    return seconds
