"""Compare two models on the same raw text: which costs less, and whether that is more than chance.

seen_text lists what a model was trained on, holdout_documents selects the lines that judge, paired_losses scores each
under both models (a Parquet file), bootstrap gives the confidence bounds of the difference. It is in nats per byte, so
the models may have different tokenizers.
"""
