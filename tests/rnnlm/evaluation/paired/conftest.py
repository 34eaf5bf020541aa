"""A corpus of few short documents as a dataset."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.home import Home
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

TRAIN = ["the cat sees .\n\n", "the dog sees .\n\n", "the cat sees .\n\n"]
VALID = ["a fox runs .\n\n", "the dog sees .\n\n", "a bird runs .\n\n", "a fox runs .\n\n", "the zebra runs .\n"]


@dataclass(frozen=True)
class Ground:
    dataset: DatasetRecord
    corpus_folder: Path


@pytest.fixture
def ground(home: Home, tmp_path: Path) -> Ground:
    """Validation: five documents; one of them repeats another, one stands in training, too."""
    folder = tmp_path / "short"
    folder.mkdir()
    for split, texts in (("train", TRAIN), ("valid", VALID), ("test", ["the cat runs .\n"])):
        (folder / f"{split}.txt").write_text("".join(texts), encoding="utf-8")
    config = CorpusConfig(source=str(folder))
    corpus = obtain_corpus(home, config)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    return Ground(store_sequences(home, corpus, tokenizer, SequencesConfig()), corpus.folder)
