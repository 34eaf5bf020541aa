"""One shard becomes Parquet files of rows and documents."""

from pathlib import Path

from rnnlm.config import SequencesConfig
from rnnlm.corpora.splits import Stretch
from rnnlm.records import SPLITS, CorpusRecord, TokenizerRecord
from rnnlm.sequences.corpus_shards import Shard, ShardMaker
from rnnlm.sequences.dataset_writer import stored_rows
from tasks.tokenize_shard import tokenize_shard


def test_a_shard_holds_the_tokens_that_it_returns(
    toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, tmp_path: Path
) -> None:
    name = toy_corpus.files["train"]
    shard = Shard(tmp_path, 0, Stretch(name, 0, (toy_corpus.folder / name).stat().st_size))
    tokens = tokenize_shard.fn(ShardMaker(toy_corpus, SequencesConfig(), toy_tokenizer.folder), shard)
    assert shard.documents.exists()
    assert tokens > 1_000
    assert sum(stored_rows(shard.rows(split)).predicted_count for split in SPLITS) == tokens
