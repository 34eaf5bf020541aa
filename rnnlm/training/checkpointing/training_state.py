"""Everything that determines how training continues: what a checkpoint holds."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from rnnlm.models.language_model import LanguageModel
from rnnlm.storage.records import ProcessChange
from rnnlm.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from rnnlm.training.regularizers import Regularizers
from rnnlm.training.schedules import Schedule
from rnnlm.training.seeding import random_states, set_random_states


@dataclass
class TrainingState:
    """Training between two steps. If a validation is due at its step, it is still to come.

    A checkpoint holds no rank's share of anything, so that any number of processes can continue from it.
    """

    model: LanguageModel
    optimizer: Optimizer
    schedule: Schedule
    regularizers: Regularizers = field(default_factory=Regularizers)
    process_group: ProcessGroup = SINGLE_PROCESS  # all ranks hold the same state, except `carried`
    step: int = 0  # optimizer steps done: one for each batch of the feed, over all epochs
    tokens: int = 0  # predicted tokens trained on
    rollbacks: int = 0  # after divergence
    carried: Tensor | None = None  # (b, L, H) after this rank's rows of the last batch
    best_perplexity: float | None = None  # None: not yet validated
    best_weights: dict[str, Tensor] | None = None  # on the CPU
    processes_at_start: int | None = None  # of the run; None: as many as now
    process_changes: list[ProcessChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.note_process_change()

    def note_process_change(self) -> None:
        """Note it if the steps before this one were taken by another number of processes."""
        size = self.process_group.size
        before = self.process_changes[-1].processes if self.process_changes else self.processes_at_start or size
        if before != size:
            self.process_changes.append(ProcessChange(step=self.step, processes=size))

    def state_dict(self) -> dict[str, Any]:
        """The state of all ranks, as a tree of dicts, lists, tensors and JSON values.

        A collective: call it on every rank at the same step.
        """
        return {
            "step": self.step,
            "tokens": self.tokens,
            "rollbacks": self.rollbacks,
            "carried": None if self.carried is None else self.process_group.gather_rows(self.carried),
            "best_perplexity": self.best_perplexity,
            "best_weights": self.best_weights,
            "random": random_states(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "regularizers": self.regularizers.state_dict(),
            "process_changes": [change.model_dump() for change in self.process_changes],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore everything, including the global random states. The model must already be on its device."""
        self.step = state["step"]
        self.tokens = state["tokens"]
        self.rollbacks = state["rollbacks"]
        carried = state["carried"]
        own_rows = slice(self.process_group.rank, None, self.process_group.size)  # as Batch.share distributes them
        self.carried = None if carried is None else carried[own_rows].to(self.model.head.weight.device)
        self.best_perplexity = state["best_perplexity"]
        self.best_weights = state["best_weights"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.regularizers.load_state_dict(state["regularizers"])
        set_random_states(state["random"])
        # Older checkpoints lack it: then their run's number of processes has never changed.
        self.process_changes = [ProcessChange(**change) for change in state.get("process_changes", ())]
        self.note_process_change()

    def remember_if_best(self, perplexity: float) -> None:
        if self.best_perplexity is None or perplexity < self.best_perplexity:
            self.best_perplexity = perplexity
            self.best_weights = {
                name: value.detach().to("cpu", copy=True) for name, value in self.model.state_dict().items()
            }
