"""Store an ensemble of finished runs as a new run. Only the mixture weights are fitted, not the networks.

RUN/config.json, started.json configuration and dataset of the first member RUN/model/, run.json, COMPLETE as in a
training run, with all networks and the n-gram model in one folder
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from rnnlm.config import PipelineConfig, Section
from rnnlm.display.model_shape import model_shape
from rnnlm.errors import ModelError
from rnnlm.evaluation.count_shares import best_shares, fit_mixture, mean_nll
from rnnlm.evaluation.token_losses import stored_network_nll
from rnnlm.metrics import perplexity
from rnnlm.models.ensemble import joined
from rnnlm.models.model_factory import load_network
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.validation_lines import choosing_tokens
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, file_digest
from rnnlm.storage.records import DatasetRecord, EnsembleMember, RunRecord, Split
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import copy_to_storage, stage, stage_key
from rnnlm.training.train import write_model
from rnnlm.training.training_run import complete_run, find_finished

logger = logging.getLogger(__name__)


class MixConfig(Section):
    """Settings of an ensemble of finished runs."""

    models: tuple[str, ...] = Field(
        description="Registered models or runs whose probabilities are averaged: NAME, NAME@ALIAS, NAME/3 or a run's "
        "id. All are networks that were trained on the same dataset."
    )


@dataclass(frozen=True)
class Member:
    """A finished run whose network is part of the ensemble."""

    run: RunRecord
    # The configuration of the run without its teacher. An ensemble has the configuration of its first member, but is
    # not distilled.
    config: PipelineConfig


def find_members(home: Home, folders: Sequence[Path]) -> tuple[list[Member], DatasetRecord]:
    """Return the runs of these model folders, and the dataset on which all of them were trained.

    `folders` are paths RUN/model, as model_lookup.run_model_folder() returns them. Raise ModelError if the runs do not
    share one dataset, or cannot be combined for another reason.
    """
    if len(set(folders)) < max(2, len(folders)):
        raise ModelError("an ensemble needs at least two models, all from different runs")
    members: list[Member] = []
    for folder in folders:
        run = RunFolder(folder.parent)
        config = run.configuration
        if not run.facts or not config:
            raise ModelError(
                f"{folder}: this model is not in the folder of a finished run; give a run's id, or a registered version"
            )
        config["training"].pop("teacher", None)
        settings = PipelineConfig.model_validate(config | {"force": ()})
        member = Member(run.record(), settings)
        if not member.config.model.has_network:
            raise ModelError(f"{member.run.run_id}: the model is only n-gram counts; give runs with a network")
        if member.run.started_from is not None:
            raise ModelError(
                f"{member.run.run_id} started from another model's weights; give runs that started from random ones"
            )
        members.append(member)
    ids = {member.run.dataset_id for member in members}
    if len(ids) > 1:
        raise ModelError(
            f"the models were trained on {len(ids)} datasets ({', '.join(sorted(one[:12] for one in ids))});\n"
            "train them on the same text, with the same tokenizer and sequences"
        )
    dataset = find_dataset(home, str(inside(home.datasets, ids.pop())))
    if dataset is None:
        raise ModelError(
            f"the dataset of these runs is not in {home.datasets}; prepare it again: rnnlm prepare --corpus …"
        )
    return members, dataset


@stage("training")
def make_ensemble(home: Home, members: Sequence[Member], dataset: DatasetRecord) -> RunRecord:
    """Create a complete run in home.runs with the members' networks and, if any member has one, an n-gram model.

    The mixture weights of the networks, and then those of the n-gram model, are fitted on the validation lines that are
    used for model selection (choosing_tokens). If the ensemble already exists, it is returned.
    """
    config = members[0].config
    order = max(member.config.model.counts for member in members)
    digests = [file_digest(member.run.model_folder / "model.safetensors") for member in members]
    key = stage_key("training", dataset=dataset.dataset_id, members=digests, counts=order)[:16]
    folder = home.runs / key
    with home.lock(f"run-{key}"):
        if (finished := find_finished(home, folder, config)) is not None:
            return finished
        names = [member.run.run_id for member in members]
        RunFolder(folder).write_started({"run_id": key, "dataset_id": dataset.dataset_id, "members": names})

        def losses_of(split: Split) -> np.ndarray:
            """Return the losses of all networks in nats, (networks, predicted tokens)."""
            batch_size = config.evaluation.batch_size
            return np.stack([stored_network_nll(home, dataset, one.run, split, batch_size) for one in members])

        nll_nats = losses_of("valid")
        shares = best_shares(nll_nats[:, choosing_tokens(dataset)])
        networks = [load_network(member.run.model_folder) for member in members]
        ensemble = joined(networks, shares)
        together, seconds = ensemble.nll_of_networks(nll_nats), None
        if order:
            ensemble.mixture, seconds = fit_mixture(dataset, order, together)
        write_model(ensemble, folder / "model", dataset)
        logger.info("training: mixture weights of the networks: %s", ", ".join(f"{share:.2f}" for share in shares))
        facts = {
            "run_id": key,
            "dataset_id": dataset.dataset_id,
            "mlflow_run_id": None,
            "trained_tokens": sum(member.run.trained_tokens for member in members),
            "best_validation_perplexity": perplexity(mean_nll(-together)),
            "counting_seconds": seconds,
            "members": [
                EnsembleMember(
                    run_id=member.run.run_id,
                    shape=model_shape(member.config.model.model_copy(update={"counts": 0})),
                    share=float(share),
                    validation_perplexity=perplexity(float(valid.mean(dtype=np.float64))),
                    test_perplexity=perplexity(float(test.mean(dtype=np.float64))),
                ).model_dump()
                for member, share, valid, test in zip(members, shares, nll_nats, losses_of("test"), strict=True)
            ],
        }
        run = complete_run(folder, facts)
        copy_to_storage(folder)
        return run
