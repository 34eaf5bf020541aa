"""A whole optimizer step as one CUDA graph: a GPU replays it by a single call, instead of waiting for Python.

The graph of a batch's shape reads its rows, masks, state and learning rate from buffers, and holds forward, loss,
backward, clipping and update. It is recorded before the shape's first step, so that all steps are replays: a run that
was killed and resumed, which records again, ends with the same bits.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.optim import Optimizer

from rnnlm.models.devices import copy_tensors
from rnnlm.training.optimizer_step import MicroBatch, Step, Updater
from rnnlm.training.process_group import SINGLE_PROCESS, ProcessGroup

logger = logging.getLogger(__name__)
MOST_SHAPES = 32  # with a graph of their own; a batch of another shape is not captured
RECORDING_ATTEMPTS = 2  # to record a step: what the first one loads while it records may make it fail
WARM_UPS = 2  # steps before recording: kernels are compiled, and libraries take their memory
T = TypeVar("T")
Shape = tuple[tuple[torch.Size, torch.dtype], ...]  # of a step's arguments


def make_updater(
    batch_loss: nn.Module,
    optimizer: Optimizer,
    clip_norm: float | None,
    process_group: ProcessGroup = SINGLE_PROCESS,
    mean_tokens: float | None = None,
    widths_vary: bool = False,
) -> Updater:
    """Make the Updater for the parameters' device. On a GPU with a single process, steps are captured.

    widths_vary: batches are sentences; see CapturedUpdater.
    """
    arguments = (batch_loss, optimizer, clip_norm, process_group, mean_tokens)
    if next(batch_loss.parameters()).device.type != "cuda":
        return Updater(*arguments)
    if process_group.size > 1:
        logger.info("training: steps are not captured as CUDA graphs, because several processes take them together")
        return Updater(*arguments)
    return CapturedUpdater(*arguments, widths_vary=widths_vary)


@dataclass
class Recording:
    """A step whose arguments lie in buffers. `replay` takes it, and overwrites results and gradients."""

    micro_batches: list[MicroBatch]
    replay: Callable[[], None]
    results: Step
    gradients: list[Tensor | None]  # of each parameter

    def __post_init__(self) -> None:
        self.buffers = tensors_of(self.micro_batches)


@dataclass
class CapturedUpdater(Updater):
    """An Updater that records a step for each shape of a batch, and replays it. On a CPU a replay takes the step again.

    widths_vary: batches have many widths and carry no state, so they are padded to one of few widths.
    """

    widths_vary: bool = False
    recordings: dict[Shape, Recording] = field(default_factory=dict)  # by shape
    refused: bool = False  # recording has failed

    def __post_init__(self) -> None:
        self.parameters = list(self.batch_loss.parameters())
        self.device = self.parameters[0].device
        self.rates = [torch.zeros((), device=self.device) for _ in self.optimizer.param_groups]
        self.stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        self.pool: Any = None  # memory that all graphs share; only one of them runs at a time
        # A loaded state is in new tensors, which no recording knows.
        self.optimizer.register_load_state_dict_post_hook(lambda optimizer: self.recordings.clear())

    @property
    def recorded_shapes(self) -> int:
        return len(self.recordings)

    def __call__(self, micro_batches: list[MicroBatch]) -> Step:
        """Sum the gradients of all micro-batches and update once, without waiting for the device; see Updater."""
        parts = [self.in_shape(part) for part in micro_batches]
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        tensors = tensors_of(parts)
        shape = shape_of(tensors)
        if shape not in self.recordings and not self.refused and len(self.recordings) < MOST_SHAPES:
            self.record(shape, parts)
        recording = self.recordings.get(shape)
        if recording is None:
            with self.rates_on_device():
                return super().__call__(parts)
        copy_tensors(recording.buffers, tensors)
        recording.replay()
        for parameter, gradient in zip(self.parameters, recording.gradients, strict=True):
            parameter.grad = gradient
        results = recording.results
        return Step(results.loss.clone(), results.norm.clone(), results.state.clone())

    def in_shape(self, part: MicroBatch) -> MicroBatch:
        """Return the same rows with a state, in one of few widths if widths vary."""
        own: Any = self.batch_loss
        state = own.model.stack.initial_state(len(part.input_ids)) if part.state is None else part.state
        inputs, targets = part.input_ids, part.target_ids
        extra = rounded_width(inputs.shape[1]) - inputs.shape[1] if self.widths_vary else 0
        if extra:
            columns = (0, 0) * (targets.dim() - 2)
            inputs, targets = pad(inputs, (0, extra)), pad(targets, (*columns, 0, extra))  # zero is <pad>
        return replace(part, input_ids=inputs, target_ids=targets, state=state)

    def record(self, shape: Shape, parts: list[MicroBatch]) -> None:
        """Record a step on copies of `parts`. Weights and the optimizer's state stay as they are."""
        buffers = copied(parts)
        # Detached: else the copies hold on to nodes of the default stream, which a recording must not touch.
        saved = [(tensor, tensor.detach().clone()) for tensor in self.changed_tensors()]
        for _ in range(RECORDING_ATTEMPTS):
            try:
                with self.rates_on_device():
                    self.warm_up(buffers)
                    self.restore(saved)
                    self.recordings[shape] = self.captured(buffers) if self.stream else self.repeated(buffers)
                return
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                self.restore(saved)
                cause = first_line_of_cause(error)
        self.refused = True
        logger.warning("training: steps are not captured as CUDA graphs, and slower: %s", cause)

    def changed_tensors(self) -> list[Tensor]:
        """Return everything that a step changes."""
        return [*self.parameters, *(one for state in self.optimizer.state.values() for one in tensors_of(state))]

    @torch.no_grad()
    def restore(self, saved: list[tuple[Tensor, Tensor]]) -> None:
        """Undo the steps since `saved`; the optimizer's state is zero where it had none."""
        known = {id(tensor) for tensor, _ in saved}
        for tensor in self.changed_tensors():
            if id(tensor) not in known:
                tensor.zero_()
        for tensor, value in saved:
            tensor.copy_(value)

    def warm_up(self, buffers: list[MicroBatch]) -> None:
        """Warm up on the stream of the recording, where the first backward pass makes gradients accumulate."""
        if self.stream is None:
            for _ in range(WARM_UPS):
                super().__call__(buffers)
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UPS):
                super().__call__(buffers)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def captured(self, buffers: list[MicroBatch]) -> Recording:
        if not self.recordings:
            self.pool = torch.cuda.graph_pool_handle()
        gc.collect()  # not during the recording: what it frees may be another graph
        graph = torch.cuda.CUDAGraph()
        for group in self.optimizer.param_groups:
            group["capturable"] = True  # torch asks for it, although the fused kernel works without
        try:
            # relaxed: a library may load a kernel while the step is recorded
            with torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="relaxed"):
                results = super().__call__(buffers)
        finally:
            for group in self.optimizer.param_groups:
                group["capturable"] = False
        return Recording(buffers, graph.replay, results, [parameter.grad for parameter in self.parameters])

    def repeated(self, buffers: list[MicroBatch]) -> Recording:
        """Do what a graph does, by taking the step once more each time."""
        empty = torch.zeros(())
        recording = Recording(buffers, lambda: None, Step(empty, empty, empty), [])

        def replay() -> None:
            with self.rates_on_device():
                recording.results = Updater.__call__(self, recording.micro_batches)
            recording.gradients = [parameter.grad for parameter in self.parameters]

        recording.replay = replay
        return recording

    @contextmanager
    def rates_on_device(self) -> Iterator[None]:
        """Let the optimizer read the learning rates from `rates` inside the context.

        Outside, they are plain numbers.
        """
        groups = self.optimizer.param_groups
        plain = [group["lr"] for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate
        try:
            yield
        finally:
            for group, rate in zip(groups, plain, strict=True):
                group["lr"] = rate


def first_line_of_cause(error: BaseException) -> str:
    """Return the first line of the error that led to this one. A recording that fails ends with an error of its own."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def rounded_width(width: int) -> int:
    """Return the number of tokens of a padded row: a multiple of 4 up to 32, of 16 up to 128, then of 64."""
    step = 4 if width <= 32 else 16 if width <= 128 else 64
    return -(-width // step) * step


def tensors_of(value: Any) -> list[Tensor]:
    """Return all tensors in dataclasses, lists, tuples and dictionaries, in a fixed order."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in items_of(value) for tensor in tensors_of(item)]


def shape_of(tensors: list[Tensor]) -> Shape:
    """Return a value that is equal for the arguments of two steps that a graph cannot tell apart."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def copied(value: T) -> T:
    """Return the value with a copy of each tensor."""
    found: Any = value
    if isinstance(found, Tensor):
        return found.clone()  # type: ignore[return-value]
    if isinstance(found, list | tuple):
        return type(found)(map(copied, found))  # type: ignore[return-value]
    if isinstance(found, dict):
        return {name: copied(item) for name, item in found.items()}  # type: ignore[return-value]
    if is_dataclass(found) and not isinstance(found, type):
        return replace(found, **{one.name: copied(getattr(found, one.name)) for one in fields(found)})  # type: ignore[return-value]
    return value


def items_of(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    return list(vars(value).values()) if is_dataclass(value) and not isinstance(value, type) else []
