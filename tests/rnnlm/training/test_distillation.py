"""Drawn targets have the teacher's probabilities and come with their own inputs, and a taught run resumes exactly."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.home import Home
from rnnlm.models.ensemble import joined
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.segmentation import Mode, StreamCutter, TokenRows, rows_from_lists
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tokenizers.text_tokenizer import BOS, EOS
from rnnlm.training.distillation import MAXIMUM_DRAWS, TargetRows, TaughtBatches, draw_targets
from rnnlm.training.model_run import run_training
from tests.configs import changed
from tests.conftest import untracked
from tests.rnnlm.training.test_warm_start import Failing


@pytest.fixture
def teacher(toy_run: RunRecord) -> LanguageModel:
    return load_model(toy_run.model_folder)


@pytest.mark.parametrize("device", [None, torch.device("cpu")], ids=["read", "resident"])
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_inputs_keep_their_order_and_each_has_its_own_target(
    toy_dataset: DatasetRecord, teacher: LanguageModel, mode: Mode, device: torch.device | None, tmp_path: Path
) -> None:
    """With a share of 0 the drawn targets are the text's."""
    split: RowSource = StoredSplit(toy_dataset, "train")
    if mode == "stream":
        vocabulary = teacher.config["vocab_size"]
        split = StreamCutter(20).add(np.random.default_rng(0).integers(4, vocabulary, 1_201).astype(np.int32))
    path = tmp_path / "targets.npy"
    draw_targets(path, teacher, split, mode, draws=2, share=0.0, seed=0)
    for first_batch, rank, world_size in ((0, 0, 1), (3, 1, 2)):
        settings = (split, mode, 7, 5, 3, range(3), rank, world_size, first_batch, device)
        pairs = zip(TrainingBatches(*settings), TaughtBatches(*settings, drawn_targets=path), strict=True)
        for plain, taught in pairs:
            assert torch.equal(plain.input_ids, taught.input_ids)
            assert torch.equal(plain.target_ids, taught.target_ids)
            assert (plain.carries_state, plain.predicted_tokens) == (taught.carries_state, taught.predicted_tokens)


@pytest.mark.parametrize("networks", [1, 2])
def test_targets_are_drawn_with_the_probabilities_of_the_teacher_and_the_text(
    teacher: LanguageModel, networks: int, tmp_path: Path
) -> None:
    draws, share = 4_000, 0.75
    text = rows_from_lists([[BOS, 5, 9, EOS], [BOS, 7, EOS]])
    model = teacher if networks == 1 else joined([teacher] * networks, np.full(networks, 1 / networks))
    draw_targets(tmp_path / "targets.npy", model, text, "sentence", draws, share, seed=0)
    drawn = np.load(tmp_path / "targets.npy")
    assert drawn.shape == (draws, 5)
    with torch.inference_mode():
        rows = [teacher(torch.tensor([line]))[0][0].softmax(dim=-1) for line in ([BOS, 5, 9], [BOS, 7])]
    expected = share * torch.cat(rows).numpy().astype(np.float64)
    expected[np.arange(5), [5, 9, EOS, 7, EOS]] += 1 - share
    found = np.stack([np.bincount(column, minlength=expected.shape[1]) / draws for column in drawn.T])
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / draws) + 1 / draws).all()
    assert not found[:, teacher.never_predicted.numpy()].any()


def test_epochs_have_other_targets_until_all_draws_are_used(teacher: LanguageModel, tmp_path: Path) -> None:
    text = rows_from_lists([[BOS, 5, 9, EOS], [BOS, 7, EOS]] * 20)
    path = tmp_path / "targets.npy"
    draw_targets(path, teacher, text, "sentence", draws=3, share=1.0, seed=0)
    batches = TaughtBatches(text, "sentence", 4, 5, 0, drawn_targets=path)

    def targets(epoch: int) -> list[int]:
        rows: TokenRows = TargetRows(text, path, epoch, batches.firsts).read(0, len(text))
        return rows.token_ids.tolist()

    assert targets(0) != targets(1) != targets(2)
    assert targets(0) == targets(3)


def test_a_taught_run_resumes_exactly_and_without_its_teacher(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    config = changed(toy_config, {"training.teacher.run": toy_run.run_id, "training.epochs": 2})
    whole = run_training(home, config, toy_dataset, untracked)
    untaught = run_training(home, changed(config, {"training.teacher.run": None}), toy_dataset, untracked)
    assert untaught.run_id != whole.run_id
    weights = (whole.model_folder / "model.safetensors").read_bytes()
    assert not (whole.folder / "drawn_targets.npy").exists()
    shutil.rmtree(whole.folder)
    with pytest.raises(RuntimeError, match="the power is cut here"):
        run_training(home, config, toy_dataset, Failing(8).open)
    drawn = np.load(home.runs / whole.run_id / "drawn_targets.npy")
    assert drawn.shape == (min(2, MAXIMUM_DRAWS), toy_dataset.predicted_tokens["train"])
    shutil.rmtree(toy_run.folder)
    again = run_training(home, config, toy_dataset, untracked)
    assert (again.model_folder / "model.safetensors").read_bytes() == weights


def test_what_is_no_finished_run_of_the_same_dataset_cannot_teach(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    config = changed(toy_config, {"training.teacher.run": "f" * 16})
    with pytest.raises(ModelError, match="rnnlm runs"):
        run_training(home, config, toy_dataset, untracked)
    config = changed(toy_config, {"training.teacher.run": toy_run.run_id})
    with pytest.raises(ModelError, match="train the teacher on the same text"):
        run_training(home, config, toy_dataset.model_copy(update={"dataset_id": "0" * 16}), untracked)
