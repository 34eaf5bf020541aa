"""Score many texts. The scores are used to detect drift, find strange documents, filter texts and compare sentences."""

from rnnlm.extension_points import Extension

SCORES_DRIFTED = "rnnlm.scores.drifted"  # The name of the event for scores that have drifted.

EXTENSION = Extension(
    measurements=("rnnlm.extensions.scoring.reference_scores:REFERENCE_SCORES",),
    drift_events=(SCORES_DRIFTED,),
)
