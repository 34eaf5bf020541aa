"""From a configuration to its stored sequences: the library's part of prepare_flow, without Prefect."""

from rnnlm.config import PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.home import Home
from rnnlm.records import DatasetRecord
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.tokenizers.tokenizer_training import train_tokenizer


def prepare_dataset(home: Home, config: PipelineConfig) -> DatasetRecord:
    """Each stage only where its verified output does not exist yet."""
    corpus = obtain_corpus(home, config.corpus)
    tokenizer = train_tokenizer(home, corpus, config.corpus, config.tokenizer)
    return store_sequences(home, corpus, config.corpus, tokenizer, config.sequences)
