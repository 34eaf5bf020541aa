from rnnlm.records import DatasetRecord, RunRecord
from tasks.keep_references import keep_references


def test_both_lie_beside_the_model(toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    paths = keep_references.fn(toy_dataset, toy_run)
    assert paths == [toy_run.model_folder / "reference" / f"{unit}.parquet" for unit in ("line", "paragraph")]
    assert all(path.is_file() for path in paths)
