from pathlib import Path

import pytest

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.corpora.splits import ByteRange
from rnnlm.home import Home
from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from rnnlm.sequences.dataset_writer import stored_rows
from rnnlm.storage.records import SPLITS, CorpusRecord, DatasetRecord, TokenizerRecord
from tasks.sequences import check_data, describe_sequences, tokenize_corpus, tokenize_shard


def test_a_shard_holds_the_tokens_that_it_returns(
    toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path
) -> None:
    name = toy_corpus.files["train"]
    shard = Shard(tmp_path, 0, ByteRange(name, 0, (toy_corpus.folder / name).stat().st_size))
    tokens = tokenize_shard.fn(ShardMaker(toy_corpus, SequencesConfig(), toy_tokenizer.folder), shard)
    assert shard.documents.exists()
    assert tokens > 1_000
    assert sum(stored_rows(shard.rows(split)).predicted_count for split in SPLITS) == tokens


@pytest.mark.long
def test_the_dataset_lies_in_the_home(
    home: Home, toy_config: PipelineConfig, toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord
) -> None:
    stream = SequencesConfig(mode="stream")
    dataset = tokenize_corpus.fn(toy_corpus, toy_tokenizer, stream)
    assert (dataset.mode, dataset.folder.parent) == ("stream", home.datasets)
    assert dataset.predicted_tokens == {"train": 3000, "valid": 400, "test": 400}
    assert (dataset.tokenizer_folder / "tokenizer.json").exists()
    assert tokenize_corpus.fn(toy_corpus, toy_tokenizer, stream).skipped


@pytest.mark.long
def test_the_report_names_the_dataset_and_holds_its_pictures(toy_dataset: DatasetRecord) -> None:
    report = describe_sequences.fn(toy_dataset)
    assert report.startswith(f"## Dataset {toy_dataset.dataset_id}")
    assert report.count("data:image/png;base64,") == 2


@pytest.mark.long
def test_all_gates_are_checked_in_order(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    record = check_data.fn(toy_config, toy_dataset)
    assert record.model_name == "rnnlm-toy"
    assert [result.gate for result in record.results] == ["shrinkage", "unknown", "duplicates", "leakage", "drift"]
