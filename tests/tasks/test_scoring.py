from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.extensions.scoring import bulk_scoring
from rnnlm.extensions.scoring.bulk_scoring import ShardScorer
from rnnlm.extensions.scoring.document_reader import INPUT_SCHEMA
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.scoring_model import find_model
from rnnlm.extensions.scoring.text_filter import scoring_of
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from tasks.scoring import compare_scores, filter_input, list_strange_documents, score_input, score_shard


def test_a_shard_holds_the_tokens_that_it_returns(home: Home, toy_run: RunRecord, tmp_path: Path) -> None:
    config = ScoringConfig(input="texts.txt", output="scores.parquet")
    rows = [
        {"number": 7, "source": "texts.txt", "place": 7, "id": None, "text": "the cat ."},
        {"number": 8, "source": "texts.txt", "place": 8, "id": "x", "text": None},
    ]
    scorer = ShardScorer(find_model(home, str(toy_run.model_folder)), config, threads=1)
    tokens = score_shard.fn(scorer, tmp_path / "shard.parquet", pa.Table.from_pylist(rows, INPUT_SCHEMA))
    scores = pq.read_table(tmp_path / "shard.parquet")
    assert tokens == 4  # The first document has three words and <eos>. The second document has no tokens.
    assert scores["tokens"].to_pylist() == [4, 0]
    assert scores["document"].to_pylist() == [7, 8]
    assert scores["id"].to_pylist() == [None, "x"]


def test_validation_text_does_not_drift_from_itself(home: Home, toy_run: RunRecord, tmp_path: Path) -> None:
    (valid,) = home.corpora.glob("*/valid.txt")
    config = ScoringConfig(input=str(valid), output=str(tmp_path / "scores.parquet"), model=toy_run.run_id)
    drift = compare_scores.fn(config, bulk_scoring.score_texts(home, config))
    assert drift.distributions is not None
    # The scores of equal lines may differ by rounding, so each of the 40 lines may be a separate step.
    assert drift.distributions.distance < 0.1
    assert not drift.drifted


def test_a_filter_writes_what_it_keeps(toy_run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the cat .\n\nthe dog .\n")
    config = FilterConfig(
        input=str(tmp_path / "texts.txt"), output=str(tmp_path / "kept"), model=toy_run.run_id, keep="place <> 2"
    )
    filter_input.fn(config, score_input.fn(scoring_of(config)))
    # The blank line and the last line are dropped.
    assert (tmp_path / "kept" / "texts.txt").read_text() == "the cat .\n"


def test_the_strangest_document_is_listed_first(toy_run: RunRecord, tmp_path: Path) -> None:
    lines = 100 * ["the cat sees the dog near the river ."]
    lines[42] = "river river near near the . cat"
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    config = ScoringConfig(
        input=str(tmp_path / "texts.txt"), output=str(tmp_path / "scores.parquet"), model=toy_run.run_id, top=3
    )
    scoring = score_input.fn(config)
    (found,) = list_strange_documents.fn(config, scoring)
    assert (found.place, found.text, found.documents) == (42, lines[42], 1)
    assert list_strange_documents.fn(config.model_copy(update={"top": 0}), scoring) == ()
