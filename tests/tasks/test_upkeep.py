import time

from rnnlm.home import Home
from rnnlm.upkeep.retention_config import RetentionConfig
from tasks.upkeep import prune
from tests.rnnlm.upkeep.registered_home import write_folder


def test_what_a_living_flow_run_may_read_stays(home: Home) -> None:
    corpus = write_folder(home.corpora / ("c" * 16), 3, corpus={})
    assert prune.fn(RetentionConfig(), time.time() - 4 * 24 * 3600).removed == ()
    assert [item.name for item in prune.fn(RetentionConfig(), None).removed] == ["c" * 16]
    assert not corpus.exists()
