"""Compare two models on the same raw documents: which costs less, and whether that is more than chance.

holdout_documents selects the documents, paired_losses scores each under both models (a Parquet file), bootstrap gives
the confidence bounds of the difference. It is in nats per byte, so the models may have different tokenizers.
"""
