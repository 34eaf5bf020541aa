"""One shard of documents becomes a Parquet file of scores."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.home import Home
from rnnlm.records import RunRecord
from rnnlm.scoring.bulk_scoring import ShardScorer
from rnnlm.scoring.document_reader import DOCUMENT_SCHEMA
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.scoring.scoring_model import find_model
from tasks.score_shard import score_shard


def test_a_shard_holds_the_tokens_that_it_returns(home: Home, toy_run: RunRecord, tmp_path: Path) -> None:
    config = ScoringConfig(input="texts.txt", output="scores.parquet")
    rows = [
        {"number": 7, "source": "texts.txt", "place": 7, "id": None, "text": "the cat ."},
        {"number": 8, "source": "texts.txt", "place": 8, "id": "x", "text": None},
    ]
    scorer = ShardScorer(find_model(home, str(toy_run.model_folder)), config, threads=1)
    tokens = score_shard.fn(scorer, tmp_path / "shard.parquet", pa.Table.from_pylist(rows, DOCUMENT_SCHEMA))
    scores = pq.read_table(tmp_path / "shard.parquet")
    assert tokens == 4  # and <eos>
    assert scores["tokens"].to_pylist() == [4, 0]
    assert scores["document"].to_pylist() == [7, 8]
    assert scores["id"].to_pylist() == [None, "x"]
