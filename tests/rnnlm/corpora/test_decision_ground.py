"""decision_ground() counts exactly the lines on which the registry compares models."""

import random
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.decision_ground import DecisionGround, decision_ground
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.paired.holdout_documents import comparison_documents
from rnnlm.evaluation.paired.seen_text import write_seen_text
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

DRAW = random.Random(0)
SENTENCES = [
    f"in {DRAW.randrange(10**6)} the {DRAW.choice('abcdefg')} met {number} others\n" for number in range(3_000)
]
TEXTS = {
    "200 records": "".join(SENTENCES[:200]),
    "records": "".join(SENTENCES),
    "paragraphs": "".join(line + "\n" * (number % 4 == 0) for number, line in enumerate(SENTENCES)),
    "repeated lines": "".join(DRAW.choice(SENTENCES[:40]) for _ in range(3_000)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", list(TEXTS))
def test_the_lines_counted_before_training_are_those_that_are_compared(home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").write_text(TEXTS[name])
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "text.txt")))
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="char"))
    dataset = store_sequences(home, corpus, tokenizer, SequencesConfig())
    write_seen_text(dataset, tmp_path / "seen.parquet")
    documents = comparison_documents(dataset, corpus.folder, [tmp_path / "seen.parquet"], fewest_lines=1)
    found = decision_ground(corpus)
    assert found.lines == pytest.approx(sum(len(document.compared) for document in documents), abs=2)
    assert found.units >= 10


@pytest.mark.parametrize(
    ("documents", "lines", "units", "detectable"),
    [(5, 24, 24, 0.034), (40, 900, 200, 0.012), (1_000, 1_500, 1_000, 0.005), (0, 0, 0, 0.1645)],
)
def test_units_are_documents_or_runs_of_lines(documents: int, lines: int, units: int, detectable: float) -> None:
    ground = DecisionGround(documents=documents, lines=lines)
    assert ground.units == units
    assert ground.detectable == pytest.approx(detectable, abs=0.0006)
