"""The n-gram model. The SQL statements in sql/ngram count, smooth and score n-grams in DuckDB.

kneser_ney trains an n-gram model with which networks are compared. textbook_backoff trains a textbook's back-off model,
which is not a probability distribution. Both write a DuckDB file, which ngram_evaluation scores and samples from.
count_arrays reads the file of a Kneser-Ney model into memory.
"""
