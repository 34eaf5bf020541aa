from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.corpora.splits import ByteRange
from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from rnnlm.sequences.dataset_reader import connect
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, TokenizerRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from tasks.sequences import check_data, describe_sequences, tokenize_corpus, tokenize_shard

LINE_TOKENS = 10  # The number of predicted tokens per toy line: nine words and <eos>.


@pytest.mark.usefixtures("home")
def test_each_line_is_a_row_of_shifted_tokens(
    toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, toy_dataset: DatasetRecord
) -> None:
    dataset = tokenize_corpus.fn(toy_corpus, toy_tokenizer, SequencesConfig(), force=True)

    assert not dataset.skipped
    assert dataset.dataset_id == toy_dataset.dataset_id  # The same text and settings give the same id.
    assert dataset.sequence_counts == {"train": 300, "valid": 40, "test": 40}
    assert dataset.predicted_tokens == {split: LINE_TOKENS * rows for split, rows in dataset.sequence_counts.items()}
    tokenizer = load_tokenizer(dataset.tokenizer_folder)
    line = (toy_corpus.folder / "test.txt").read_text().splitlines()[0]
    expected = [tokenizer.bos_id, *tokenizer.encode(line), tokenizer.eos_id]
    with connect(dataset) as connection:
        query = "select input_ids, target_ids from shifted_sequences where split = 'test' order by sequence_id limit 1"
        assert connection.execute(query).fetchone() == (expected[:-1], expected[1:])


def test_a_shard_holds_the_tokens_of_its_byte_range(
    toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path
) -> None:
    text = (toy_corpus.folder / "valid.txt").read_bytes()
    shard = Shard(tmp_path, 0, ByteRange("valid.txt", 0, len(text)))
    tokens = tokenize_shard.fn(ShardMaker(toy_corpus, SequencesConfig(), toy_tokenizer.folder), shard)
    assert tokens == 40 * LINE_TOKENS
    rows = pq.read_table(shard.rows("valid"))["token_ids"].to_pylist()
    assert [len(row) for row in rows] == 40 * [1 + LINE_TOKENS]  # Each row begins with <bos>.
    assert len(pq.read_table(shard.rows("train"))) == 0
    assert pq.read_table(shard.documents)["predicted_tokens"].to_pylist() == [40 * LINE_TOKENS]


def test_a_description_reports_rows_tokens_and_words(home: Home, toy_dataset: DatasetRecord) -> None:
    report = describe_sequences.fn(toy_dataset)
    # The 17 ids are 4 animals, 3 verbs, 3 places, "the", "near", "." and 4 special tokens.
    assert "17 ids" in report
    # Each of the 300 training lines has ten tokens.
    assert "| 10 | ████████████████████████████████████████ | 300 |" in report
    assert "data:image/png;base64,iVBOR" in report
    assert [path.name for path in home.descriptions.iterdir()] == [toy_dataset.dataset_id]
    assert describe_sequences.fn(toy_dataset) == report


@pytest.mark.long
def test_all_gates_are_checked_in_order(
    tracked_home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    record = check_data.fn(toy_config, toy_dataset)
    assert record.model_name == "rnnlm-toy"
    assert [result.gate for result in record.results] == ["shrinkage", "unknown", "duplicates", "leakage", "drift"]
