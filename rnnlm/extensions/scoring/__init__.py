"""Score many texts, and use the scores for drift, strange documents, filters, sentence pairs and n-best lists."""

from rnnlm.extension_points import Extension

SCORES_DRIFTED = "rnnlm.scores.drifted"  # The event with this name is emitted when the scores have drifted.

EXTENSION = Extension(
    measurements=("rnnlm.extensions.scoring.reference_scores:REFERENCE_SCORES",),
    drift_events=(SCORES_DRIFTED,),
)
