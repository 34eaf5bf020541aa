"""Score many texts, and use the scores for drift, strange documents, filters, sentence pairs and n-best lists."""

from rnnlm.extension_points import Extension

SCORES_DRIFTED = "rnnlm.scores.drifted"  # The name of the event for drifted scores.

EXTENSION = Extension(
    measurements=("rnnlm.extensions.scoring.reference_scores:REFERENCE_SCORES",),
    drift_events=(SCORES_DRIFTED,),
)
