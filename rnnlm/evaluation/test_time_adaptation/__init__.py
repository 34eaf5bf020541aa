"""What can be put on top of a trained model without training it again, reported apart from its plain perplexity.

walking reads a split in the order of the text and scores it, learning from what was scored (dynamic) and remembering
it (cache) where it is asked to; mixing joins two models' probabilities and finds the best share; tuning chooses
settings on the validation split; comparing makes the table that `rnnlm evaluate` shows.

Everything here scores a token before it looks at it: no score depends on later text.
"""
