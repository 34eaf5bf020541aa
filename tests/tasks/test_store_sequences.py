import pytest

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.home import Home
from rnnlm.records import CorpusRecord, TokenizerRecord
from tasks.store_sequences import store_sequences


@pytest.mark.long
def test_the_dataset_lies_in_the_home(
    home: Home, toy_config: PipelineConfig, toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord
) -> None:
    stream = SequencesConfig(mode="stream")
    dataset = store_sequences.fn(toy_corpus, toy_tokenizer, stream)
    assert (dataset.mode, dataset.folder.parent) == ("stream", home.datasets)
    assert dataset.predicted_tokens == {"train": 3000, "valid": 400, "test": 400}
    assert (dataset.tokenizer_folder / "tokenizer.json").exists()
    assert store_sequences.fn(toy_corpus, toy_tokenizer, stream).skipped
