"""The same seed gives the same samples, which begin with <bos>, end with <eos> and contain no impossible token."""

from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation.ngram.kneser_ney import train_kneser_ney
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.ngram.ngram_evaluation import sample_texts
from rnnlm.evaluation.ngram.textbook_backoff import train_textbook
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer


@pytest.mark.long
def test_the_same_seed_gives_the_same_samples_and_another_seed_others(home: Home, toy_dataset: DatasetRecord) -> None:
    tokenizer = load_tokenizer(toy_dataset.tokenizer_folder)
    config = NgramConfig(order=4, samples=3, seed=5)
    model = train_kneser_ney(home, toy_dataset, config)
    first = sample_texts(model, tokenizer)
    assert first == sample_texts(model, tokenizer)
    assert first != sample_texts(model.model_copy(update={"config": config.model_copy(update={"seed": 6})}), tokenizer)
    assert len({sample.text for sample in first}) == 3


@pytest.mark.long
def test_samples_begin_and_end_like_sentences(home: Home, toy_dataset: DatasetRecord) -> None:
    """Nearly all samples have nine words, begin with `the` and end with `.`, as all sentences of the toy corpus do."""
    config = NgramConfig(order=5, samples=20, seed=1)
    model = train_kneser_ney(home, toy_dataset, config)
    samples = sample_texts(model, load_tokenizer(toy_dataset.tokenizer_folder))
    typical = [text for text in (sample.text for sample in samples) if text.startswith("the ") and text.endswith(" .")]
    assert len(typical) >= 15
    assert not any(token in sample.text for sample in samples for token in ("<pad>", "<bos>", "<eos>"))


@pytest.mark.long
def test_the_textbook_model_samples_words_of_its_training_part(home: Home, toy_folder: Path) -> None:
    config = NgramConfig(method="textbook", order=3, samples=2, maximum_tokens=12)
    model = train_textbook(home, obtain_corpus(home, CorpusConfig(source=str(toy_folder))), config)
    samples = sample_texts(model, None)
    known = set((toy_folder / "train.txt").read_text().split())
    assert [sample.tokens for sample in samples] == [12, 12]
    assert all(set(sample.text.split()) <= known for sample in samples)
    assert samples == sample_texts(model, None)
