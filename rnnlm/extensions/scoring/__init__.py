"""Scoring of many texts, in order to detect drift, find strange documents, filter texts and compare sentences."""

from rnnlm.extension_points import Extension

SCORES_DRIFTED = "rnnlm.scores.drifted"  # The name of the event that reports drifted scores.

EXTENSION = Extension(
    measurements=("rnnlm.extensions.scoring.reference_scores:REFERENCE_SCORES",),
    drift_events=(SCORES_DRIFTED,),
)
