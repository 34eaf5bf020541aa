"""Two models on the same raw documents: which of them costs less, and whether that is more than chance.

ground says which documents may be used, scoring what each costs under each model (a Parquet file), bootstrap what
the difference is worth; comparing does all three. No tokenizer enters the comparison: it is of nats per byte.
"""
