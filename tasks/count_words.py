"""Count the words of one stretch of a corpus."""

from collections.abc import Callable

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.config import TokenizerConfig
from rnnlm.corpora.splits import Stretch
from rnnlm.records import CorpusRecord
from tasks.operations.task_runners import is_worth_a_retry


@task(
    task_run_name="count words of {stretch.source_file} from byte {stretch.byte_offset}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=10,
    retry_condition_fn=is_worth_a_retry,
)
def count_words(
    count: Callable[..., pa.Table], corpus: CorpusRecord, config: TokenizerConfig, stretch: Stretch
) -> pa.Table:
    return count(corpus, config, stretch)
