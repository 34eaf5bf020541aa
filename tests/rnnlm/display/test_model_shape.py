"""The description of a model mentions an n-gram model only if its weight in the mixture is positive."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig
from rnnlm.models.mixture import save_mixture
from rnnlm.models.model_factory import load_model
from rnnlm.registry.model_card import network_summary
from rnnlm.reports.pipeline_page import training_report
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tracking.mlflow_runs import NOTE, shown_tags
from rnnlm.trained_model import shape


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_counts_are_named_where_they_have_a_share(
    toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord, tmp_path: Path, share: float
) -> None:
    run = toy_run.model_copy(update={"folder": shutil.copytree(toy_run.folder, tmp_path / "run")})
    mixture = load_model(run.model_folder).mixture
    assert mixture is not None
    save_mixture(dataclasses.replace(mixture, shares=mixture.shares * 0 + share), run.model_folder)
    texts = [
        training_report(run, toy_config.model, toy_config.training),
        network_summary(run, toy_dataset),
        shape(load_model(run.model_folder)),
    ]
    assert ["mixed with" in text for text in texts] == [share > 0] * 3
    # The description is written before training, when the weights of the mixture are not known.
    assert "mixed" not in shown_tags(toy_config, toy_dataset, None, 0)[NOTE]


def test_a_model_of_counts_alone_is_named_from_the_beginning(
    toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    counts = toy_config.model.model_copy(update={"kind": "kneser-ney", "counts": 3})
    config = toy_config.model_copy(update={"model": counts})
    assert "up to 3 tokens" in shown_tags(config, toy_dataset, None, 0)[NOTE]
