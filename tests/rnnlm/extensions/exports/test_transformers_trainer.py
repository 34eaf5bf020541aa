"""transformers' Trainer trains a model on stored sequences, computes rnnlm's loss, and resumes from its checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from rnnlm.evaluation.perplexity import score_split
from rnnlm.extensions.exports.hugging_face import RnnlmForCausalLM
from rnnlm.sequences.dataset_reader import connect
from tests.rnnlm.conftest import Storyteller

pytest.importorskip("accelerate", reason="Trainer needs accelerate: pip install '.[trainer]'")
from transformers import Trainer, TrainingArguments  # noqa: E402

Row = dict[str, list[int]]


def stored_rows(storyteller: Storyteller, split: str, count: int) -> list[Row]:
    """Return rows of the stored dataset with their shifted targets."""
    with connect(storyteller.dataset) as connection:
        rows = connection.execute(
            "select input_ids, target_ids from shifted_sequences where split = ? order by sequence_id limit ?",
            [split, count],
        ).fetchall()
    return [{"input_ids": inputs, "shift_labels": targets} for inputs, targets in rows]


def padded(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Return a batch padded on the right with `<pad>`, which the loss ignores."""
    return {
        name: pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True)
        for name in ("input_ids", "shift_labels")
    }


def trainer(
    model: RnnlmForCausalLM, rows: list[Row], folder: Path, collate: Callable[..., Any] = padded, **settings: Any
) -> Trainer:
    plain = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 16,
        "learning_rate": 0.01,
        "label_names": ["shift_labels"],
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 5,
    }
    arguments = TrainingArguments(**plain | settings)
    return Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows, data_collator=collate)


def test_trainer_measures_the_same_loss(storyteller: Storyteller, tmp_path: Path) -> None:
    """Trainer computes the same loss of a split as rnnlm if the split is one batch.

    With several batches, Trainer would average their losses without regard to the batch sizes.
    """
    rows = stored_rows(storyteller, "valid", 1_000)
    model = storyteller.network()
    run = trainer(RnnlmForCausalLM.from_language_model(model), rows, tmp_path, per_device_eval_batch_size=len(rows))
    found = run.evaluate()["eval_loss"]
    score = score_split(model, storyteller.dataset, "valid", batch_size=64)
    assert torch.tensor(found).exp().item() == pytest.approx(score.perplexity, rel=1e-4)
    predictions = run.predict(rows[:4]).predictions
    assert predictions.shape[0] == 4  # The predictions are the logits of the 4 rows, without the state.
    assert predictions.shape[-1] == storyteller.tokenizer.vocabulary_size
