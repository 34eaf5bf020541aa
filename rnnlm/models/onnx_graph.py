"""A model as an ONNX file: the graph of one step, its state an input and an output. Needs the extra `onnx`.

    token_ids (batch, 1) int64, state (batch, L, H) float32 → logits (batch, V) float32, new_state (batch, L, H)

The batch is of any size. Whoever runs the file begins with a state of zeros and `<bos>`, and feeds each new state back.
The tokenizer and the ids of the special tokens are written beside it: the file alone says nothing of text.
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
from rnnlm.extras import need_extra
from rnnlm.home import atomic_file, write_json
from rnnlm.models.elman import ElmanLanguageModel
from rnnlm.models.model_factory import load_model
from rnnlm.records import ExportRecord
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, PAD, UNK

TOKENIZER, SPECIAL_TOKENS = "tokenizer.json", "special_tokens.json"  # beside the file
LARGEST_BYTES = 1 << 30  # of weights: beyond it the exporter would put them into a second file
CHECKED_STEPS, CHECKED_LANES = 64, 2
TOLERANCE = 1e-4  # of a logit; of the largest one, where that is above 1: relu's state may grow over a random text


class OneStep(nn.Module):
    """What the graph computes."""

    def __init__(self, model: ElmanLanguageModel) -> None:
        super().__init__()
        self.model = copy.deepcopy(model)
        # Two products and a tanh for each layer, and where layers add up a norm and a sum. The fused kernel is torch's
        # own and no operator of ONNX.
        self.model.stack.backend = "loop"

    def forward(self, token_ids: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """token_ids: (b, 1), state: (b, L, H) → logits (b, V), new state (b, L, H)."""
        hidden, new_state = self.model.hidden(token_ids, state)
        return self.model.logits(hidden[:, -1]), new_state


def export_onnx(folder: Path, file: Path) -> ExportRecord:
    """Write the model in `folder` to `file`, checked in onnxruntime against torch before it gets its name.

    ConfigError where it cannot be written there, or another model's tokenizer lies there; ModelError where the two
    runtimes disagree by more than TOLERANCE.
    """
    need_extra("onnx", "rnnlm export --to onnx")
    model = load_model(folder).language_model
    refuse_what_does_not_fit(model, folder)
    make_place(file, folder / TOKENIZER)
    program = exported(model)
    with atomic_file(file) as partial:
        program.save(str(partial), external_data=False)
        difference = largest_difference(model, partial)
        if not difference <= TOLERANCE:
            raise ModelError(
                f"{file}: logits in onnxruntime differ from torch's by {difference:.2g}, expected {TOLERANCE:g} at\n"
                "most; nothing was written. Install onnx, onnxscript and onnxruntime as in constraints.txt."
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
    )


def refuse_what_does_not_fit(model: ElmanLanguageModel, folder: Path) -> None:
    """An ONNX file is one protobuf message, which holds 2 GiB at most."""
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    if size > LARGEST_BYTES:
        raise ModelError(
            f"{folder}: its weights have {size:,} bytes, and one ONNX file takes {LARGEST_BYTES:,} at most"
        )


def make_place(file: Path, tokenizer: Path) -> None:
    """The folder of `file`, made if need be. ConfigError where the tokenizer of another vocabulary lies there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output {file}: its folder cannot be made ({error.strerror})") from error
    if file.is_dir():
        raise ConfigError(f"--output {file}: is a folder; give a file in it, such as {file / 'model.onnx'}")
    there = file.parent / TOKENIZER
    if there.exists() and not filecmp.cmp(there, tokenizer, shallow=False):
        raise ConfigError(
            f"--output {file}: {there} belongs to another model, and each needs its own beside it;\n"
            "give a file in another folder, or delete that one"
        )


def exported(model: ElmanLanguageModel) -> Any:
    """torch's ONNXProgram, from torch.export's graph rather than the older trace of TorchScript."""
    # Two rows: with one, torch.export takes the batch for a constant. Which token and state does not matter.
    example = (torch.full((2, 1), EOS), torch.zeros(2, len(model.stack.cells), model.stack.hidden_size))
    batch = {0: torch.export.Dim("batch")}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns of what every graph lacks
    try:
        with warnings.catch_warnings(action="ignore"):  # that both inputs share one axis: they should
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
def largest_difference(model: ElmanLanguageModel, file: Path) -> float:
    """Between logits of onnxruntime and of torch, while both read the same random ids, each carrying its own state.

    Divided by the largest logit where that is above 1. Infinite where onnxruntime gives a probability to a token that
    is never predicted.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    never = model.never_predicted
    ids = torch.randint(len(never), (CHECKED_LANES, CHECKED_STEPS), generator=generator)
    state = torch.zeros(CHECKED_LANES, len(model.stack.cells), model.stack.hidden_size)
    their_state, difference, largest = state.numpy(), 0.0, 1.0
    for token_ids in ids.split(1, dim=1):
        logits, state = model(token_ids, state)
        theirs, their_state = session.run(None, {"token_ids": token_ids.numpy(), "state": their_state})
        if not np.isneginf(theirs[:, never.numpy()]).all():
            return float("inf")
        ours = logits[:, 0, ~never]
        difference = max(difference, float((ours - torch.from_numpy(theirs)[:, ~never]).abs().max()))
        largest = max(largest, float(ours.abs().max()))
    return difference / largest
