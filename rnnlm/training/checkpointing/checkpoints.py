"""Checkpoints of a run: folders of safetensors and JSON, written atomically and verified when read.

    RUN/checkpoints/step-00001234/
        tensors.safetensors   weights, optimizer moments, recurrent state, states of the random generators
        state.json            all other values, and the name of each tensor in its place
        COMPLETE              the sha256 of both files

No pickle file is read or written, because unpickling can execute code.
"""

import json
import logging
import math
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rnnlm.storage.home import sync
from rnnlm.storage.stages import find_damage, mark_complete
from rnnlm.training.process_group import SINGLE_PROCESS, ProcessGroup

logger = logging.getLogger(__name__)
CHECKPOINT_FORMAT = 2  # The format number in a checkpoint. Checkpoints with another number are not read.
CHECKPOINTS = "checkpoints"  # The name of the subfolder with checkpoints in a run's folder.
COST_SHARE = 0.01  # Writing checkpoints takes at most about this fraction of the training time.
TENSORS, STATE = "tensors.safetensors", "state.json"


@dataclass
class Checkpoints:
    """The newest `kept` checkpoints of a run.

    Only rank 0 writes files. `write` and `load_newest` are collectives, so every rank must call them.

    The next checkpoint is due once COST_SHARE of the time since the last one is more than the seconds that writing it
    took, at the latest after `every_seconds`. A killed process therefore loses at most about 100 times the time that
    writing a checkpoint takes.
    """

    folder: Path
    kept: int
    every_seconds: float
    process_group: ProcessGroup = SINGLE_PROCESS

    def __post_init__(self) -> None:
        self.written = time.monotonic()  # The time of the last checkpoint, or the beginning of training.
        # The seconds that writing the last checkpoint took. The initial value 0 makes the first checkpoint due at once.
        self.cost_seconds = 0.0
        self.last_step: int | None = None  # The step of the checkpoint that was written or read last.

    @property
    def due(self) -> bool:
        """Return True if a checkpoint is due. On ranks other than 0 the result is always False."""
        wait = min(self.every_seconds, self.cost_seconds / COST_SHARE)
        return self.process_group.is_main and time.monotonic() - self.written >= wait

    def write(self, step: int, state: dict[str, Any]) -> bool:
        """Write a checkpoint on rank 0. Return False, after a warning, if the disk is full or read-only."""
        start = time.monotonic()
        written = False
        if self.process_group.is_main:
            try:
                write_checkpoint(self.path(step), step, state)
                written = True
            except (OSError, SafetensorError) as error:
                # After this failed attempt, the next attempt is due after `every_seconds`.
                start = -math.inf
                message = "%s: cannot be written (%s); training continues, and older checkpoints are kept"
                logger.warning(message, self.path(step), error)
            for old in self.steps()[: -self.kept] if written else ():
                shutil.rmtree(self.path(old), ignore_errors=True)
        self.written = time.monotonic()
        self.cost_seconds = self.written - start
        if not self.process_group.max(written):
            return False
        self.last_step = step
        return True

    def steps(self) -> list[int]:
        """Return the steps of the written checkpoints in ascending order."""
        found = (re.fullmatch(r"step-([0-9]{8,})", path.name) for path in self.folder.glob("step-*"))
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def load_before(self, failed_step: int) -> dict[str, Any] | None:
        """Return the newest state that precedes a failed step, or None if there is no checkpoint.

        If the newest checkpoint was written immediately before the failed step, the step would fail again at any
        learning rate. This checkpoint is therefore renamed, unless it is the only one.
        """
        steps = self.steps()
        if self.process_group.is_main and len(steps) > 1 and self.last_step == failed_step:
            rename_damaged(self.path(steps[-1]))
        return self.load_newest()

    def load_newest(self) -> dict[str, Any] | None:
        """Return the state of the newest undamaged checkpoint, or None if there is none.

        Damaged checkpoints are renamed with a warning. Raise HomeError if a checkpoint cannot be read, for instance for
        lack of permission. Such a checkpoint may be undamaged, so training must not start over.
        """
        if not self.process_group.is_main:
            self.process_group.barrier()  # The other ranks wait until rank 0 has renamed the damaged checkpoints.
        steps, state = self.steps(), None
        while steps and state is None:
            step = steps.pop()
            try:
                state = read_checkpoint(self.path(step))
                self.last_step = step
            except (ValueError, SafetensorError) as error:
                logger.warning(
                    "%s: this checkpoint is not used (%s); the one before it is tried", self.path(step), error
                )
                if self.process_group.is_main:
                    rename_damaged(self.path(step))
                if not steps:
                    logger.warning("%s: no usable checkpoint is left, so training starts over", self.folder)
        if self.process_group.is_main:
            self.process_group.barrier()
        return state


def write_checkpoint(final: Path, step: int, state: dict[str, Any]) -> None:
    """Write a checkpoint under a temporary name, sync it to the disk, then rename it.

    After an OSError or SafetensorError no file is left.
    """
    final.parent.mkdir(exist_ok=True)
    # Partial checkpoints are left by killed processes, because a run has only one writer.
    for leftover in final.parent.glob(".*.partial"):
        shutil.rmtree(leftover)
    partial = final.parent / f".{final.name}.partial"
    partial.mkdir()
    try:
        tensors: dict[str, Tensor] = {}
        facts = {
            "format": CHECKPOINT_FORMAT,
            "step": step,
            "versions": {"torch": torch.__version__, "numpy": np.__version__, "safetensors": safetensors.__version__},
            "state": pack(state, "state", tensors),
        }
        text = json.dumps(facts)
        save_file(tensors, partial / TENSORS)
        (partial / STATE).write_text(text, encoding="utf-8")
        mark_complete(partial)
        # An existing checkpoint of this step is damaged, because training would otherwise have resumed after it.
        if final.exists():
            shutil.rmtree(final)
        partial.replace(final)
        sync(final.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """Return the state stored in a checkpoint.

    Raise ValueError if the checkpoint is damaged or has another format. Raise HomeError if it cannot be read.
    """
    damage = find_damage(folder)
    if damage is not None:
        raise ValueError(f"damaged: {damage}")
    facts = json.loads((folder / STATE).read_text(encoding="utf-8"))
    if facts["format"] != CHECKPOINT_FORMAT:
        raise ValueError(f"its format is {facts['format']}, expected {CHECKPOINT_FORMAT}")
    # The tensors are copied to aligned memory, because kernels may sum unaligned tensors in another order.
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}
    state: dict[str, Any] = unpack(facts["state"], tensors)
    return state


def rename_damaged(folder: Path) -> None:
    """Rename a checkpoint to NAME.damaged. Renamed checkpoints are deleted when the run is complete."""
    damaged = folder.with_name(f"{folder.name}.damaged")
    shutil.rmtree(damaged, ignore_errors=True)
    folder.replace(damaged)


def pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return a tree of dicts, lists and plain values as JSON, and copy its tensors to the CPU into `tensors`.

    A dict is stored as {"items": [[key, value], …]}, because its keys may be numbers. A tuple is stored as a list.
    """
    if isinstance(value, Tensor):
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"items": [[key, pack(item, f"{name}.{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [pack(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
    return value


def unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {key: unpack(item, tensors) for key, item in value["items"]}
    if isinstance(value, list):
        return [unpack(item, tensors) for item in value]
    return value
