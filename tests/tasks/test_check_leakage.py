from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import DatasetError
from rnnlm.home import Home
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tasks.check_leakage import check_leakage


def test_a_dataset_whose_held_out_text_is_training_text_is_refused(home: Home, tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a b c\n")
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path)))
    config = SequencesConfig()
    dataset = store_sequences(home, corpus, train_tokenizer(home, corpus, TokenizerConfig(kind="word")), config)
    assert check_leakage.fn(dataset, config) == 1.0
    with pytest.raises(DatasetError, match="maximum_leakage"):
        check_leakage.fn(dataset, SequencesConfig(maximum_leakage=0.5))
