"""Measure how far the sum of a textbook's back-off scores over all words is from 1, the sum of probabilities.

    python benchmarks/textbook_scores.py FILE [--contexts 1000]

The n-grams of FILE are counted as by `rnnlm ngram --method textbook`. For evenly spaced test words that the training
part contains, the scores of all words after the word's context are added up. Dividing scores by this sum would make
them probabilities.
"""

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_database import open_model
from rnnlm.evaluation.ngram.ngram_evaluation import next_distribution
from rnnlm.evaluation.ngram.textbook_backoff import train_textbook
from rnnlm.storage.home import Home

TEST_WORDS = """
select p.c4, p.c3, p.c2, p.c1, p.word, exp(s.log_probability) as score
from positions as p
inner join log_probabilities as s using (split, sequence_id, position)
where p.split = 'test' and p.word in (select token_id from vocabulary)
order by p.position
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--contexts", type=int, default=1_000)
    options = parser.parse_args()
    config = NgramConfig(method="textbook")
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        model = train_textbook(home, obtain_corpus(home, CorpusConfig(source=str(options.file))), config)
        with open_model(model) as connection:
            rows = connection.execute(TEST_WORDS).fetchall()
            taken = [rows[index] for index in np.linspace(0, len(rows) - 1, options.contexts).astype(int)]
            probabilities = []
            for *context, word, _ in taken:
                ids, _, distribution = next_distribution(connection, "textbook", context)
                probabilities.append(float(distribution[np.searchsorted(ids, word)]))
    scores = np.array([row[-1] for row in taken])
    sums = scores / np.array(probabilities)
    print(f"{len(taken):,} of {len(rows):,} test words with their contexts")
    print(f"sum of the scores of all words: mean {sums.mean():.2f}, from {sums.min():.2f} to {sums.max():.2f}")
    print(f"exp of the mean -ln score: {math.exp(-np.log(scores).mean()):.2f}")
    print(f"perplexity, with each score divided by its sum: {math.exp(-np.log(probabilities).mean()):.2f}")


if __name__ == "__main__":
    main()
