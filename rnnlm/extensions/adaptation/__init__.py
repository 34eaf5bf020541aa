"""Adapt a trained model to the test text while scoring it, without a separate training run.

The perplexity with adaptation is reported separately from the perplexity of the unchanged model. sequential_scoring
scores a split in the order of the text, with a neural cache or with dynamic evaluation (dynamic_evaluation).
adaptation_table tunes the settings of both methods on the validation split and creates the table that `rnnlm evaluate`
prints. Every token is scored before the model learns from it, so no score depends on later text.
"""

from rnnlm.extension_points import Extension

EXTENSION = Extension(variants=("rnnlm.extensions.adaptation.adaptation_options:AdaptationOptions",))
