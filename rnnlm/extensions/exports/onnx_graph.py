"""Export a model to ONNX, as the graph of one time step with the state as input and output.

This module needs the `onnx` extra.

    token_ids (batch, 1) int64, state (batch, L, S) float32 → logits (batch, V) float32, new_state (batch, L, S)

The batch may have any size. The inputs of the first step are a state of zeros and `<bos>`. The state of each further
step is new_state of the previous one. The tokenizer and the ids of the special tokens are written to the folder of the
ONNX file.
"""

import copy
import filecmp
import logging
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rnnlm.errors import ConfigError, ModelError
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import load_network
from rnnlm.runtime.extras import need_extra
from rnnlm.storage.home import atomic_file, write_json
from rnnlm.storage.records import Record
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, PAD, UNK

# The names of the files next to the ONNX file.
TOKENIZER, SPECIAL_TOKENS = "tokenizer.json", "special_tokens.json"
# Larger models are refused, because the exporter would write a part of their weights to a second file.
LARGEST_BYTES = 1 << 30
CHECKED_STEPS, CHECKED_LANES = 64, 2
# The largest allowed difference between the logits of onnxruntime and torch. It is relative to the largest logit if
# that is above 1, because relu states may grow.
LOGITS_TOLERANCE = 1e-4


class ExportRecord(Record):
    """The result of exporting a model to ONNX: the file, its tokenizer and its special tokens."""

    file: Path
    tokenizer: Path
    special_tokens: Path
    file_bytes: int
    largest_difference: float  # The largest difference between the logits of ONNX Runtime and torch.
    without_counts: bool = False  # True if the model also has an n-gram model, which is not in the ONNX file.


class OneStep(nn.Module):
    """The function of one time step, which the ONNX graph computes."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = copy.deepcopy(model)
        # The fused kernel cannot be exported, because it has no ONNX operator.
        self.model.stack.backend = "loop"

    def forward(self, token_ids: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Read one token per row, and return the logits, (b, V), and the new state, (b, L, S).

        `token_ids` has the shape (b, 1), and `state` (b, L, S).
        """
        hidden, new_state = self.model.hidden(token_ids, state)
        return self.model.logits(hidden[:, -1]), new_state


def export_onnx(folder: Path, file: Path) -> ExportRecord:
    """Write the model in `folder` to `file`, after comparing the results of onnxruntime and torch.

    Raise ConfigError if `file` cannot be written, or if its folder has the tokenizer of another model. Raise ModelError
    if the results differ by more than LOGITS_TOLERANCE.
    """
    need_extra("onnx", "rnnlm export")
    model = load_network(folder)
    if model.mixture is not None and model.mixture.is_alone:
        raise ModelError(f"{folder}: the model has no network to export; use --format arpa for its n-gram counts")
    check_size(model, folder)
    prepare_folder(file, folder / TOKENIZER)
    program = build_program(model)
    with atomic_file(file) as partial:
        program.save(str(partial), external_data=False)
        difference = largest_difference(model, partial)
        if not difference <= LOGITS_TOLERANCE:
            raise ModelError(
                f"{file}: logits in onnxruntime differ from torch's by {difference:.2g}, expected at most\n"
                f"{LOGITS_TOLERANCE:g}; nothing was written. "
                "Install onnx, onnxscript and onnxruntime as in constraints.txt."
            )
    tokenizer, special_tokens = file.parent / TOKENIZER, file.parent / SPECIAL_TOKENS
    if not tokenizer.exists():
        shutil.copy(folder / TOKENIZER, tokenizer)
    write_json(special_tokens, {"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS})
    return ExportRecord(
        file=file,
        tokenizer=tokenizer,
        special_tokens=special_tokens,
        file_bytes=file.stat().st_size,
        largest_difference=difference,
        without_counts=model.mixture is not None and model.mixture.uses_counts,
    )


def check_size(model: LanguageModel, folder: Path) -> None:
    """Raise ModelError if the model does not fit into one ONNX file, a protobuf message of at most 2 GiB."""
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    if size > LARGEST_BYTES:
        raise ModelError(
            f"{folder}: the model's weights have {size:,} bytes, expected at most {LARGEST_BYTES:,} for ONNX"
        )


def prepare_folder(file: Path, tokenizer: Path) -> None:
    """Create the folder of `file`. Raise ConfigError if it has the tokenizer of another model."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--output {file}: its folder cannot be created ({error.strerror}); give a file in another folder"
        ) from error
    if file.is_dir():
        raise ConfigError(f"--output {file}: is a folder; give a file in it, such as {file / 'model.onnx'}")
    existing = file.parent / TOKENIZER
    if existing.exists() and not filecmp.cmp(existing, tokenizer, shallow=False):
        raise ConfigError(
            f"--output {file}: {existing} belongs to another model, and each model needs its own folder;\n"
            "give a file in another folder, or delete that tokenizer"
        )


def build_program(model: LanguageModel) -> Any:
    """Export the model with torch.export and return torch's ONNXProgram."""
    # The example has two rows, because torch.export would treat a batch size of one as a constant.
    example = (torch.full((2, 1), EOS), model.stack.initial_state(2))
    batch = {0: torch.export.Dim("batch")}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # Warnings of the exporter are disabled, because it logs one for every graph.
    try:
        # torch warns that both inputs share the batch axis, which is intended.
        with warnings.catch_warnings(action="ignore"):
            return torch.onnx.export(
                OneStep(model).eval(),
                example,
                dynamo=True,
                input_names=["token_ids", "state"],
                output_names=["logits", "new_state"],
                dynamic_shapes=(batch, batch),
                verbose=False,
            )
    finally:
        logger.setLevel(level)


@torch.inference_mode()
def largest_difference(model: LanguageModel, file: Path) -> float:
    """Return the largest difference between the logits of onnxruntime and torch for the same random token ids.

    The difference is divided by the largest logit if that is above 1. It is infinite if onnxruntime gives a probability
    to a token that is never predicted.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    never = model.never_predicted
    ids = torch.randint(len(never), (CHECKED_LANES, CHECKED_STEPS), generator=generator)
    state = model.stack.initial_state(CHECKED_LANES)
    onnx_state, difference, largest = state.numpy(), 0.0, 1.0
    for token_ids in ids.split(1, dim=1):
        logits, state = model(token_ids, state)
        onnx_logits, onnx_state = session.run(None, {"token_ids": token_ids.numpy(), "state": onnx_state})
        if not np.isneginf(onnx_logits[:, never.numpy()]).all():
            return float("inf")
        expected = logits[:, 0, ~never]
        difference = max(difference, float((expected - torch.from_numpy(onnx_logits)[:, ~never]).abs().max()))
        largest = max(largest, float(expected.abs().max()))
    return difference / largest
