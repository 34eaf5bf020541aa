"""A fixture with a dataset of a few short documents."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tests.built_once import built_once

TRAIN = ["the cat sees .\n\n", "the dog sees .\n\n", "the cat sees .\n\n"]
VALID = ["a fox runs .\n\n", "the dog sees .\n\n", "a bird runs .\n\n", "a fox runs .\n\n", "the zebra runs .\n"]


@dataclass(frozen=True)
class StoredDocuments:
    dataset: DatasetRecord
    corpus_folder: Path


@pytest.fixture(scope="session")
def stored_documents_template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, StoredDocuments]:
    return built_once(tmp_path_factory, store_short_documents)


def store_short_documents(below: Path) -> tuple[Home, StoredDocuments]:
    home, folder = Home(below / "home"), below / "short"
    folder.mkdir()
    for split, texts in (("train", TRAIN), ("valid", VALID), ("test", ["the cat runs .\n"])):
        (folder / f"{split}.txt").write_text("".join(texts), encoding="utf-8")
    config = CorpusConfig(source=str(folder))
    corpus = obtain_corpus(home, config)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    return home, StoredDocuments(store_sequences(home, corpus, tokenizer, SequencesConfig()), corpus.folder)


@pytest.fixture
def stored_documents(home: Home, stored_documents_template: tuple[Home, StoredDocuments]) -> StoredDocuments:
    """Return five validation documents. One of them repeats another one, and one is also in the training text."""
    template, there = stored_documents_template
    shutil.copytree(template.root, home.root, dirs_exist_ok=True)
    dataset = there.dataset.model_copy(update={"folder": home.root / there.dataset.folder.relative_to(template.root)})
    return StoredDocuments(dataset, home.root / there.corpus_folder.relative_to(template.root))
