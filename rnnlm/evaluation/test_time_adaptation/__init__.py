"""Adapt a trained model at test time, without training it again; reported apart from its plain perplexity.

sequential_scoring scores a split in the order of the text, with dynamic evaluation and the neural cache; interpolation
mixes two models' probabilities; grid_search tunes settings on the validation split; adaptation_table is what
`rnnlm evaluate` shows. Every token is scored before it is learnt from: no score depends on later text.
"""
