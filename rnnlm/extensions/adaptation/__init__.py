"""Adapt a trained model at test time, without training it again; reported apart from its plain perplexity.

sequential_scoring scores a split in the order of the text, with the neural cache and with a model that learns as it
reads (dynamic_evaluation); adaptation_table tunes both on the validation split and is what `rnnlm evaluate` shows.
Every token is scored before it is learnt from: no score depends on later text.
"""

from rnnlm.extension_points import Extension

EXTENSION = Extension(variants=("rnnlm.extensions.adaptation.adaptation_options:AdaptationOptions",))
