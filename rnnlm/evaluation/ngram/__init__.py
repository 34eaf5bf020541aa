"""The n-gram model. N-grams are counted, smoothed and scored in DuckDB by sql/ngram.

kneser_ney trains the model for comparison. textbook_backoff trains the back-off model of a textbook, which is not a
probability distribution. Both write one DuckDB file, which ngram_evaluation scores and samples from. count_arrays reads
the file of a Kneser-Ney model into memory.
"""
