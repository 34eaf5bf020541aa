"""Training in several processes, on one machine, on several machines, or on a Ray cluster."""

from rnnlm.extension_points import AddedSection, Extension

EXTENSION = Extension(
    sections=(
        AddedSection(
            "training.distributed",
            "rnnlm.extensions.distributed.distributed_config:DistributedConfig",
            "Training in several processes.",
        ),
    ),
    launchers=("rnnlm.extensions.distributed.launch_choice:launch_choice",),
)
