from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from tasks.upkeep import prune
from tests.rnnlm.extensions.upkeep.registry_histories import write_folder


def test_the_older_dataset_and_its_corpus_go(home: Home) -> None:
    for dataset, hours, corpus in (("d1", 50, "c" * 64), ("d2", 40, "e" * 64)):
        write_folder(home.datasets / dataset, hours, dataset={"corpus_name": "news", "corpus_digest": corpus})
        write_folder(home.corpora / corpus[:16], hours, corpus={})
    config = RetentionConfig(datasets=1, days=0)
    planned = prune.fn(config.model_copy(update={"dry_run": True}), None)
    assert [item.name for item in planned.removed] == ["d1", "c" * 16]
    assert (home.datasets / "d1").exists()
    assert [item.name for item in prune.fn(config, None).removed] == ["d1", "c" * 16]
    assert [path.name for path in home.datasets.iterdir()] == ["d2"]
    assert [path.name for path in home.corpora.iterdir()] == ["e" * 16]


def test_a_run_of_the_last_hours_stays(home: Home, toy_run: RunRecord) -> None:
    assert prune.fn(RetentionConfig(days=0), None).removed == ()
    assert toy_run.model_folder.exists()
