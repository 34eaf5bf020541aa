"""The count-based model: n-grams are counted, smoothed and scored in DuckDB by sql/ngram.

kneser_ney trains the model to compare with, textbook_backoff the textbook's back-off, which is not a distribution. Both
write one DuckDB file, which ngram_evaluation scores and samples from, and count_arrays reads into memory.
"""
