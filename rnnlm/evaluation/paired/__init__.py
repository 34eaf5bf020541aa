"""The paired comparison of two models on the same raw text, with confidence bounds of the difference.

seen_text lists the text on which a model was trained. holdout_documents selects the lines for the comparison.
paired_losses writes the loss of each line under both models to a Parquet file. bootstrap computes the confidence bounds
of the difference in nats per byte. This unit makes models with different tokenizers comparable.
"""
