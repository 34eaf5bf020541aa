"""The settings training.distributed: the number of training processes, their machines, and how they are started."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from rnnlm.config.bounds import NonNegativeInt, Size
from rnnlm.config.section import Section, setting

if TYPE_CHECKING:
    from rnnlm.config import PipelineConfig


class DistributedConfig(Section):
    """Data-parallel training in several processes."""

    changeable = ("processes", "launcher", "nodes", "rendezvous", "restarts")

    # The number of processes changes the rounding of sums, and therefore the result.
    processes: Size = setting(
        1, "Number of training processes, in total over all nodes. Each has batch_size / processes rows of a step."
    )
    processes_at_start: Size | None = setting(
        None,
        "Number of processes with which an unfinished run was started. `rnnlm train --resume RUN` sets it if the run "
        "continues with another number. If null, the number has not changed.",
        changes_results=False,
    )
    launcher: Literal["torchrun", "ray"] = setting(
        "torchrun",
        "Program that starts the processes. torchrun starts them on this machine, or on several `nodes`. With ray, Ray "
        "Train starts them on the cluster that RAY_ADDRESS names. The cluster's machines must share the rnnlm home. "
        "The ray launcher needs the `ray` extra.",
        changes_results=False,
    )
    nodes: Size = setting(
        1, "Number of machines that train together. Start the others by hand with `rnnlm join`.", changes_results=False
    )
    rendezvous: str | None = setting(
        None,
        "Address host:port of this machine, to which the other nodes connect.",
        pattern=r"^[^\s:]+:[0-9]+$",
        changes_results=False,
    )
    restarts: NonNegativeInt = setting(
        2, "Maximum number of restarts after a training process has died.", changes_results=False
    )

    def resolved(self) -> Self:
        """Return the section in which `processes` is the number at the run's start, on which the run's key depends."""
        return self.model_copy(update={"processes": self.processes_at_start or self.processes})

    def check_with(self, whole: "PipelineConfig") -> None:
        """Raise ValueError if a batch has too few rows for the processes.

        The number of rows need not be divisible by the number of processes, so a run can continue with another number
        of processes. Some ranks may have one row more than others.
        """
        batch_size, accumulation = whole.training.batch_size, whole.training.accumulation
        if batch_size < self.processes:
            raise ValueError(
                f"training.batch_size {batch_size} must be at least training.distributed.processes {self.processes}"
            )
        rows = batch_size // self.processes
        if rows < accumulation:
            raise ValueError(
                f"training.accumulation {accumulation} must be at most the {rows} rows of each of the "
                f"{self.processes} processes"
            )

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes with processes_at_start, which is None if the number is the same as at the start."""
        at_start = self.processes_at_start or self.processes
        same = changes.get("processes", self.processes) == at_start
        return {**changes, "processes_at_start": None if same else at_start}

    @model_validator(mode="after")
    def check_nodes(self) -> "DistributedConfig":
        if self.processes % self.nodes:
            raise ValueError(f"processes {self.processes} must be a multiple of nodes {self.nodes}")
        if (self.nodes > 1) != (self.rendezvous is not None):
            raise ValueError("nodes above 1 and rendezvous=host:port must be set together")
        if self.launcher == "ray" and self.nodes > 1:
            raise ValueError("launcher=ray does not allow nodes or rendezvous: Ray chooses the nodes")
        return self
