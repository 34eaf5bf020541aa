"""Scores of texts in bulk, and what rests on them: drift, strange documents, filters, pairs and n-best lists."""

from rnnlm.extension_points import Extension

SCORES_DRIFTED = "rnnlm.scores.drifted"  # name of the event

EXTENSION = Extension(
    measurements=("rnnlm.extensions.scoring.reference_scores:REFERENCE_SCORES",),
    drift_events=(SCORES_DRIFTED,),
)
