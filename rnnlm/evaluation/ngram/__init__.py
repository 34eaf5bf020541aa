"""The count-based model: n-grams counted, smoothed and scored inside DuckDB by the statements of sql/ngram.

kneser_ney trains the model to be compared with; textbook the back-off that is not a distribution. Both leave one
DuckDB file, which scoring and sampling read.
"""
