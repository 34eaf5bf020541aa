"""The targets of each token are drawn with the teacher's probabilities. Resuming distillation changes no result."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rnnlm.config import PipelineConfig
from rnnlm.errors import ModelError
from rnnlm.extensions.distillation.teacher import DRAWS_PER_TOKEN, draw_targets, systematic_sample
from rnnlm.models.ensemble import joined
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.sequences.data_feed import TrainingBatches
from rnnlm.sequences.segmentation import Mode, StreamCutter, rows_from_lists
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.tokenizers.text_tokenizer import BOS, EOS
from rnnlm.training.training_run import run_training
from rnnlm.training.training_speed import repeated_batches
from tests.configs import changed
from tests.conftest import untracked
from tests.rnnlm.training.test_warm_start import Failing


@pytest.fixture
def teacher(toy_run: RunRecord) -> LanguageModel:
    return load_model(toy_run.model_folder)


@pytest.mark.parametrize("device", [None, torch.device("cpu")], ids=["read", "resident"])
@pytest.mark.parametrize("mode", ["sentence", "stream"])
def test_inputs_keep_their_order_and_each_has_its_own_targets(
    mode: Mode, device: torch.device | None, tmp_path: Path
) -> None:
    """Rows keep their order, and each predicted token has the targets that were drawn for it.

    The token at position p is 10 + p, and its targets are greater by 1,000, 2,000 and so on.
    """
    places = np.arange(10, 1_211, dtype=np.int32)
    if mode == "stream":
        text = StreamCutter(20).add(places[1:])
        count = text.predicted_count
        first = 11
    else:
        lengths = np.random.default_rng(0).integers(1, 12, 200)
        bounds = np.cumsum(lengths)
        lines = [[BOS, *range(10 + end - length, 10 + end)] for end, length in zip(bounds, lengths, strict=True)]
        text = rows_from_lists([[int(one) for one in line] for line in lines])
        count, first = text.predicted_count, 10
    path = tmp_path / "targets.npy"
    np.save(path, (first + np.arange(count) + 1_000 * np.arange(1, 1 + DRAWS_PER_TOKEN)[:, None]).astype(np.uint16))
    for first_batch, rank, world_size in ((0, 0, 1), (3, 1, 2)):
        settings = (text, mode, 7, 5, 3, range(3), rank, world_size, first_batch, device)
        pairs = zip(TrainingBatches(*settings), TrainingBatches(*settings, drawn_targets=path), strict=True)
        for plain, taught in pairs:
            assert torch.equal(plain.input_ids, taught.input_ids)
            assert torch.equal(plain.mask, taught.mask)
            expected = plain.target_ids[..., None] + 1_000 * torch.arange(1 + DRAWS_PER_TOKEN)
            assert torch.equal(taught.target_ids, expected * plain.mask[..., None])
            assert (plain.carries_state, plain.predicted_tokens) == (taught.carries_state, taught.predicted_tokens)


@pytest.mark.parametrize("networks", [1, 2])
def test_drawn_targets_have_the_probabilities_of_the_teacher(
    teacher: LanguageModel, networks: int, tmp_path: Path
) -> None:
    draws = 4_000
    text = rows_from_lists([[BOS, 5, 9, EOS], [BOS, 7, EOS]])
    model = teacher if networks == 1 else joined([teacher] * networks, np.full(networks, 1 / networks))
    draw_targets(tmp_path / "targets.npy", model, text, "sentence", seed=0, draws=draws)
    drawn = np.load(tmp_path / "targets.npy")
    assert drawn.shape == (draws, 5)
    with torch.inference_mode():
        rows = [teacher(torch.tensor([line]))[0][0].softmax(dim=-1) for line in ([BOS, 5, 9], [BOS, 7])]
    expected = torch.cat(rows).numpy().astype(np.float64)
    found = np.stack([np.bincount(column, minlength=expected.shape[1]) for column in drawn.T])
    assert (np.abs(found - draws * expected) < 1.01).all()
    assert not found[:, teacher.never_predicted.numpy()].any()


def test_a_systematic_sample_has_no_bias() -> None:
    probabilities = torch.tensor([0.0, 0.1, 0.02, 0.88]).repeat(20_000, 1)
    drawn = systematic_sample(probabilities, 3, torch.Generator().manual_seed(0))
    found = np.bincount(drawn.flatten().numpy(), minlength=4) / drawn.numel()
    assert found == pytest.approx([0.0, 0.1, 0.02, 0.88], abs=5e-3)
    assert found[0] == 0


@pytest.mark.long
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
    with pytest.raises(RuntimeError, match="simulated power failure"):
        run_training(home, config, toy_dataset, Failing(8).open)
    drawn = np.load(home.runs / whole.run_id / "drawn_targets.npy")
    assert drawn.shape == (DRAWS_PER_TOKEN, toy_dataset.predicted_tokens["train"])
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
    counts = run_training(home, changed(toy_config, {"model.kind": "kneser-ney"}), toy_dataset, untracked)
    with pytest.raises(ModelError, match="only n-gram counts"):
        run_training(home, changed(toy_config, {"training.teacher.run": counts.run_id}), toy_dataset, untracked)


def test_a_taught_network_is_measured_with_all_its_targets(
    toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    plain = next(repeated_batches(toy_config, toy_dataset, torch.device("cpu")))
    taught = next(
        repeated_batches(changed(toy_config, {"training.teacher.run": "0123"}), toy_dataset, torch.device("cpu"))
    )
    assert plain.target_ids.shape == plain.input_ids.shape
    assert taught.target_ids.shape == (*plain.input_ids.shape, 1 + DRAWS_PER_TOKEN)
    assert taught.predicted_tokens == plain.predicted_tokens
