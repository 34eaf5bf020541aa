"""Capture of whole optimizer steps as CUDA graphs, which a GPU replays by a single call instead of waiting for Python.

There is one graph for each shape of batch. The graph reads the token ids, dropout masks, recurrent state and learning
rate from fixed buffers, and contains the forward pass, loss, backward pass, clipping and update. It is recorded before
the first step of its shape, so that all steps of the shape are replays. A resumed run records its graphs again, and
therefore ends with the same bits as an uninterrupted run.
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
# The largest number of batch shapes with a CUDA graph. Batches of other shapes are not captured.
MOST_SHAPES = 32
# The number of attempts to record a graph. The first attempt may fail because a library loads a kernel in it.
RECORDING_ATTEMPTS = 2
# The number of steps before a recording. In these steps, kernels are compiled and libraries such as cuBLAS allocate
# workspaces, which is not allowed during a recording.
WARM_UPS = 2
T = TypeVar("T")
# The shape and type of each tensor among a step's arguments. Each Shape has a separate graph.
Shape = tuple[tuple[torch.Size, torch.dtype], ...]


def make_updater(
    batch_loss: nn.Module,
    optimizer: Optimizer,
    clip_norm: float | None,
    process_group: ProcessGroup = SINGLE_PROCESS,
    mean_tokens: float | None = None,
    widths_vary: bool = False,
) -> Updater:
    """Return the Updater for the device of the parameters. It captures steps if a single process trains on a GPU.

    `widths_vary` is true in sentence mode, where batches have rows of different lengths; see CapturedUpdater.
    """
    arguments = (batch_loss, optimizer, clip_norm, process_group, mean_tokens)
    if next(batch_loss.parameters()).device.type != "cuda":
        return Updater(*arguments)
    if process_group.size > 1:
        logger.info("training: steps are not captured as CUDA graphs, because several processes train together")
        return Updater(*arguments)
    return CapturedUpdater(*arguments, widths_vary=widths_vary)


@dataclass
class Recording:
    """A recorded step, whose arguments are stored in buffers.

    Each `replay` overwrites the results and the gradients.
    """

    micro_batches: list[MicroBatch]
    replay: Callable[[], None]
    results: Step
    gradients: list[Tensor | None]  # The gradient of each parameter.

    def __post_init__(self) -> None:
        self.buffers = tensors_of(self.micro_batches)


@dataclass
class CapturedUpdater(Updater):
    """An Updater that records one step for each shape of batch and then replays it.

    On a CPU, which has no graphs, a replay computes the step again from the buffers.

    If `widths_vary` is true, batches have many widths and carry no state from one batch to the next. The batches are
    then padded to one of a few widths, so that few graphs are needed.
    """

    widths_vary: bool = False
    recordings: dict[Shape, Recording] = field(default_factory=dict)
    refused: bool = False  # True after a recording has failed. No further recording is attempted then.

    def __post_init__(self) -> None:
        self.parameters = list(self.batch_loss.parameters())
        self.device = self.parameters[0].device
        self.rates = [torch.zeros((), device=self.device) for _ in self.optimizer.param_groups]
        self.stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        self.pool: Any = None  # The graphs share one pool of memory, because only one of them runs at a time.
        # Loading the optimizer's state allocates new tensors. The recordings are discarded, because they would update
        # the old tensors.
        self.optimizer.register_load_state_dict_post_hook(lambda optimizer: self.recordings.clear())

    @property
    def recorded_shapes(self) -> int:
        return len(self.recordings)

    def __call__(self, micro_batches: list[MicroBatch]) -> Step:
        """Sum the gradients of all micro-batches and update the weights once, without waiting for the device."""
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
        """Return the micro-batch with an explicit initial state, padded to one of a few widths if widths vary."""
        own: Any = self.batch_loss
        state = own.model.stack.initial_state(len(part.input_ids)) if part.state is None else part.state
        inputs, targets = part.input_ids, part.target_ids
        extra = rounded_width(inputs.shape[1]) - inputs.shape[1] if self.widths_vary else 0
        if extra:
            columns = (0, 0) * (targets.dim() - 2)
            # The padding is 0, which is the id of <pad>.
            inputs, targets = pad(inputs, (0, extra)), pad(targets, (*columns, 0, extra))
        return replace(part, input_ids=inputs, target_ids=targets, state=state)

    def record(self, shape: Shape, parts: list[MicroBatch]) -> None:
        """Record a step on copies of `parts`. The weights and the optimizer's state are not changed."""
        buffers = copied(parts)
        # The copies are detached, because autograd nodes of the default stream must not be used in a recording.
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
        logger.warning("training: steps run slower, because capturing them as CUDA graphs failed: %s", cause)

    def changed_tensors(self) -> list[Tensor]:
        """Return all tensors that a step changes: the parameters and the optimizer's state."""
        return [*self.parameters, *(one for state in self.optimizer.state.values() for one in tensors_of(state))]

    @torch.no_grad()
    def restore(self, saved: list[tuple[Tensor, Tensor]]) -> None:
        """Restore the tensors in `saved`. Tensors of the optimizer's state that are not in `saved` are set to zero."""
        known = {id(tensor) for tensor, _ in saved}
        for tensor in self.changed_tensors():
            if id(tensor) not in known:
                tensor.zero_()
        for tensor, value in saved:
            tensor.copy_(value)

    def warm_up(self, buffers: list[MicroBatch]) -> None:
        """Run the warm-up steps on the stream of the recording, so that their gradients are accumulated on it."""
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
        # Garbage is collected now, because a recording fails if another graph is freed during it.
        gc.collect()
        graph = torch.cuda.CUDAGraph()
        for group in self.optimizer.param_groups:
            # torch requires this flag for capturing, although the fused kernel could be captured without it.
            group["capturable"] = True
        try:
            # In the mode "relaxed" a library may load a kernel during the recording.
            with torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="relaxed"):
                results = super().__call__(buffers)
        finally:
            for group in self.optimizer.param_groups:
                group["capturable"] = False
        return Recording(buffers, graph.replay, results, [parameter.grad for parameter in self.parameters])

    def repeated(self, buffers: list[MicroBatch]) -> Recording:
        """Return a Recording whose replay computes the step again, as a substitute for a CUDA graph on the CPU."""
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
        """Replace the optimizer's learning rates by the tensors in `rates` inside the context.

        Outside the context, the optimizer's learning rates are plain numbers.
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
    """Return the first line of the original error, which is the cause of the error that a failed recording raises."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def rounded_width(width: int) -> int:
    """Return the width to which rows are padded: a multiple of 4 up to 32, of 16 up to 128, and of 64 above 128."""
    step = 4 if width <= 32 else 16 if width <= 128 else 64
    return -(-width // step) * step


def tensors_of(value: Any) -> list[Tensor]:
    """Return all tensors in dataclasses, lists, tuples and dictionaries, in a fixed order."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in items_of(value) for tensor in tensors_of(item)]


def shape_of(tensors: list[Tensor]) -> Shape:
    """Return the shapes and types of a step's tensors. Steps with the same shapes and types replay the same graph."""
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def copied(value: T) -> T:
    """Return a copy of the value in which every tensor is cloned."""
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
