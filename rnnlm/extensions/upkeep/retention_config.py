"""Options of `rnnlm prune` and of the `prune` deployment, which are not part of the pipeline's configuration."""

from pydantic import Field

from rnnlm.config import Section
from rnnlm.storage.home import HISTORY_DAYS


class RetentionConfig(Section):
    """Rules for what an rnnlm home keeps.

    Versions with an alias, and all items that these versions need, are always kept.
    """

    versions: int = Field(
        5, ge=1, le=1_000_000, description="Number of newest versions that are kept per registered model."
    )
    champions: int = Field(
        3,
        ge=1,
        le=1_000_000,
        description="Number of previous champions that are kept per registered model for rollbacks.",
    )
    datasets: int = Field(
        2,
        ge=1,
        le=1_000_000,
        description="Number of datasets that are kept per corpus, in addition to those of kept versions.",
    )
    days: int = Field(
        HISTORY_DAYS,
        ge=0,
        le=36_500,
        description="Number of days for which histories of MLflow and Prefect, runs without a version, and caches are "
        "kept. Days on which nothing in the home was used count only for Prefect.",
    )
    recent_hours: float = Field(
        24.0, ge=0.0, le=876_000.0, description="Number of hours after its last use for which an item is always kept."
    )
    dry_run: bool = Field(False, description="Only report what would be removed, without removing it.")
