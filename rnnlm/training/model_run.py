"""Train a model: a run of its network (training_run.py), with the counts that are mixed with it."""

import logging
from functools import partial

from rnnlm.config import PipelineConfig
from rnnlm.evaluation.count_shares import fit_mixture
from rnnlm.evaluation.token_losses import stored_network_nll
from rnnlm.home import Home
from rnnlm.models.mixture import save_mixture
from rnnlm.storage.records import DatasetRecord, RunRecord, StartedFrom
from rnnlm.training.samples import sample_writer
from rnnlm.training.training_run import OpenTracker, train_run

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
    """train_run() with the configured counts, and with samples at each validation if asked for."""
    write_samples = sample_writer(config, dataset) if samples else None
    add = partial(add_counts, home, config, dataset)
    return train_run(home, config, dataset, open_tracker, add, start=start, force=force, write_samples=write_samples)


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
