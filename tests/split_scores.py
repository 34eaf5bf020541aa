"""Invented scores of a split, for tests of tables and pages."""

from rnnlm.storage.result_records import SplitScore


def split_score_of(perplexity: float, split: str = "test", **fields: object) -> SplitScore:
    """Return a score with 1.5 bits per byte. `fields` replace other fields of the score."""
    score = {
        "split": split,
        "tokens": 1000,
        "nll_nats_per_token": 4.0,
        "perplexity": perplexity,
        "bits_per_byte": 1.5,
        "unknown_rate": 0.0,
        "uniform_perplexity": 4000.0,
        "unigram_perplexity": 700.0,
    }
    return SplitScore.model_validate(score | fields)
