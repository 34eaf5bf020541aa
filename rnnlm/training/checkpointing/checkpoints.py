"""Checkpoints of a run: folders of safetensors and JSON, written whole or not at all, read only if undamaged.

    RUN/checkpoints/step-00001234/
        tensors.safetensors   weights, moments, carried state, generators' states
        state.json            everything else, with the place of each tensor in it
        COMPLETE              sha256 of both

Nothing that unpickles is ever read.
"""

import json
import logging
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rnnlm.home import sync
from rnnlm.stages import find_damage, mark_complete
from rnnlm.training.distributed.process_group import ALONE, World

logger = logging.getLogger(__name__)
FORMAT = 1  # of what lies in the folder; another one is not read
CHECKPOINTS = "checkpoints"  # in a run's folder
TENSORS, STATE = "tensors.safetensors", "state.json"


class Checkpoints:
    """The newest `kept` checkpoints of a run, one due every so many seconds.

    Of several processes one writes, and each must ask for what is to be written or read when the others do.
    """

    def __init__(self, folder: Path, kept: int, every_seconds: float, world: World = ALONE) -> None:
        self.folder = folder
        self.kept = kept
        self.every_seconds = every_seconds
        self.world = world
        self.next = time.monotonic() + every_seconds
        self.last_step: int | None = None  # of the checkpoint last written or read

    @property
    def due(self) -> bool:
        """By the clock of the process that writes."""
        return self.world.leads and time.monotonic() >= self.next

    def write(self, step: int, state: dict[str, Any]) -> bool:
        """True where it lies on the disk; a disk that is full or may not be written is a warning, no more."""
        self.next = time.monotonic() + self.every_seconds
        written = self.world.leads and self.written(step, state)
        if not self.world.largest(written):
            return False
        self.last_step = step
        return True

    def written(self, step: int, state: dict[str, Any]) -> bool:
        try:
            write_folder(self.path(step), step, state)
        except (OSError, SafetensorError) as error:
            logger.warning("%s: not written (%s); training goes on, older checkpoints stay", self.path(step), error)
            return False
        for old in self.steps()[: -self.kept]:
            shutil.rmtree(self.path(old), ignore_errors=True)
        return True

    def steps(self) -> list[int]:
        """Of the finished checkpoints, ascending."""
        found = (re.fullmatch(r"step-([0-9]{8,})", path.name) for path in self.folder.glob("step-*"))
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def newest_good(self) -> dict[str, Any] | None:
        """The state of the newest undamaged checkpoint. Damaged ones are named in a warning and set aside.

        HomeError if one cannot be read: that is not damage, and training must not start anew because of it.
        """
        if not self.world.leads:
            self.world.wait_for_all()  # until rank 0 has set aside what is damaged
        state = self.newest_undamaged()
        if self.world.leads:
            self.world.wait_for_all()
        return state

    def newest_undamaged(self) -> dict[str, Any] | None:
        steps = self.steps()
        for step in reversed(steps):
            try:
                state = read_folder(self.path(step))
                self.last_step = step
                return state
            except (ValueError, SafetensorError) as error:
                logger.warning("%s: not used (%s); the one before it is tried", self.path(step), error)
                if self.world.leads:
                    set_aside(self.path(step))
        if steps:
            logger.warning("%s: no checkpoint is left that can be used; training starts anew", self.folder)
        return None


def write_folder(final: Path, step: int, state: dict[str, Any]) -> None:
    """Write under another name, sync, rename. OSError or SafetensorError: nothing is left of it."""
    final.parent.mkdir(exist_ok=True)
    for leftover in final.parent.glob(".*.partial"):  # of a killed process: a run has one writer
        shutil.rmtree(leftover)
    partial = final.parent / f".{final.name}.partial"
    partial.mkdir()
    try:
        tensors: dict[str, Tensor] = {}
        facts = {
            "format": FORMAT,
            "step": step,
            "versions": {"torch": torch.__version__, "numpy": np.__version__, "safetensors": safetensors.__version__},
            "state": packed(state, "state", tensors),
        }
        text = json.dumps(facts)
        save_file(tensors, partial / TENSORS)
        (partial / STATE).write_text(text, encoding="utf-8")
        mark_complete(partial)
        if final.exists():  # of this step, but not good: else nobody would write it again
            shutil.rmtree(final)
        partial.replace(final)
        sync(final.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_folder(folder: Path) -> dict[str, Any]:
    """What write_folder was given. ValueError if it is damaged or of another format, HomeError if it is unreadable."""
    damage = find_damage(folder)
    if damage is not None:
        raise ValueError(f"damaged: {damage}")
    facts = json.loads((folder / STATE).read_text(encoding="utf-8"))
    if facts["format"] != FORMAT:
        raise ValueError(f"format {facts['format']}, expected {FORMAT}")
    # Cloned: what is read lies at any address, and kernels may add up differently at an unaligned one.
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}
    state: dict[str, Any] = unpacked(facts["state"], tensors)
    return state


def set_aside(folder: Path) -> None:
    """Rename a damaged checkpoint to NAME.damaged: it no longer counts, and goes when the run is complete."""
    aside = folder.with_name(f"{folder.name}.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    folder.replace(aside)


def packed(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for a tree of dicts, lists and plain values; its tensors go to `tensors`, copied to the CPU.

    A dict becomes {"items": [[key, value], …]}, so that keys may be numbers; tuples come back as lists.
    """
    if isinstance(value, Tensor):
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"items": [[key, packed(item, f"{name}.{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [packed(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
    return value


def unpacked(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {key: unpacked(item, tensors) for key, item in value["items"]}
    if isinstance(value, list):
        return [unpacked(item, tensors) for item in value]
    return value
