"""Probes that measure the reach of gradients, memory, synthetic tasks, and the accuracy at each position."""

from rnnlm.extension_points import AddedSection, Extension

EXTENSION = Extension(
    sections=(
        AddedSection(
            "probes", "rnnlm.extensions.probes.run_probes_config:ProbesConfig", "Plots of what the trained model does."
        ),
    ),
    measurements=(
        "rnnlm.extensions.probes.run_probes:GRADIENT_PROBE",
        "rnnlm.extensions.probes.run_probes:POSITION_PROBE",
    ),
)
