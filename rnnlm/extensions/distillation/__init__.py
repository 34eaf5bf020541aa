"""Distillation, in which a network learns from another model's probabilities in addition to the text."""

from rnnlm.extension_points import AddedSection, Extension

EXTENSION = Extension(
    sections=(
        AddedSection(
            "training.teacher",
            "rnnlm.extensions.distillation.teacher_config:TeacherConfig",
            "Another model from which the network learns.",
            added_later=True,
        ),
    ),
    targets=("rnnlm.extensions.distillation.teacher:targets_of_teacher",),
)
