"""Choose whether a run is trained in other processes or in the current one."""

from rnnlm.config.training_config import TrainingConfig
from rnnlm.extensions.distributed.distributed_config import DistributedConfig
from rnnlm.extensions.distributed.launcher import train_in_processes
from rnnlm.models.devices import choose_device
from rnnlm.runtime.extras import need_extra
from rnnlm.training.checkpointing.interruption import Interruption
from rnnlm.training.history import Tracker
from rnnlm.training.job import Job, TrainingResult, former_processes_ended
from rnnlm.training.process_group import ProcessGroup
from rnnlm.training.samples import listener_of_job
from rnnlm.training.train import train
from rnnlm.training.training_run import TrainElsewhere


def launch_choice(training: TrainingConfig) -> TrainElsewhere | None:
    """Return the function that trains the run in other processes, or None to train in this process.

    Other processes are used if training.distributed requests several processes or Ray. Errors (ExtraError, DeviceError)
    are raised before anything is written.
    """
    distributed = DistributedConfig.of(training)
    # The device is not checked here, because the cluster may have devices that this machine lacks.
    if distributed.launcher == "ray":
        need_extra("ray", "training.distributed.launcher=ray")
        return train_in_processes
    choose_device(training.device)
    if distributed.processes > 1:
        return train_in_processes
    return None if distributed.processes_at_start is None else continue_alone


def continue_alone(job: Job, tracker: Tracker, interruption: Interruption) -> TrainingResult:
    """Continue a run that was started with several processes, in this process only."""
    process_group = ProcessGroup(size_at_start=DistributedConfig.of(job.training).processes_at_start)
    with former_processes_ended(job.folder):
        return train(
            job, choose_device(job.training.device), listener_of_job(job, tracker), interruption, process_group
        )
