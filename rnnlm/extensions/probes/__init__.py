"""Probes: how far back gradients reach, what networks remember and learn, and at which positions they predict well."""

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
