from rnnlm.config import PipelineConfig
from rnnlm.home import Home
from rnnlm.records import CorpusRecord
from tasks.train_tokenizer import train_tokenizer


def test_the_tokenizer_lies_in_the_home(home: Home, toy_config: PipelineConfig, toy_corpus: CorpusRecord) -> None:
    bpe = toy_config.tokenizer.model_copy(update={"kind": "bpe", "vocabulary_size": 300})
    tokenizer = train_tokenizer.fn(toy_corpus, bpe)
    assert (tokenizer.kind, tokenizer.skipped, tokenizer.folder.parent) == ("bpe", False, home.tokenizers)
    assert 260 < tokenizer.vocabulary_size <= 300
    assert train_tokenizer.fn(toy_corpus, bpe).skipped
