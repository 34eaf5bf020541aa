from pathlib import Path

import pyarrow.parquet as pq

from rnnlm.records import RunRecord
from rnnlm.scoring.scoring_config import ScoringConfig
from tasks.score_texts import score_texts


def test_every_line_has_a_row_in_the_output(toy_run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the cat .\nthe dog .\n")
    output = tmp_path / "scores.parquet"
    config = ScoringConfig(input=str(tmp_path / "texts.txt"), output=str(output), model=toy_run.run_id)
    assert score_texts.fn(config).output == output
    assert pq.read_table(output)["text"].to_pylist() == ["the cat .", "the dog ."]
