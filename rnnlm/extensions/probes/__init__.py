"""Probes that measure the reach of gradients, memory, synthetic tasks, and the accuracy at each position."""

from rnnlm.extension_points import AddedSection, Extension

EXTENSION = Extension(
    sections=(
        AddedSection(
            "probes",
            "rnnlm.extensions.probes.run_probes_config:ProbesConfig",
            "Measurements and plots of the trained model.",
        ),
    ),
    measurements=(
        "rnnlm.extensions.probes.run_probes:GRADIENT_PROBE",
        "rnnlm.extensions.probes.run_probes:POSITION_PROBE",
    ),
)
