"""Options of `rnnlm prune` and of the deployment `prune`; not a stage of the pipeline."""

from pydantic import Field

from rnnlm.config import Section
from rnnlm.storage.home import HISTORY_DAYS


class RetentionConfig(Section):
    """Rules for what a home keeps. Versions with an alias, and all that they need, are always kept."""

    versions: int = Field(5, ge=1, le=1_000_000, description="Newest versions kept per registered model.")
    champions: int = Field(
        3, ge=1, le=1_000_000, description="Previous champions kept per registered model, to roll back to."
    )
    datasets: int = Field(
        2, ge=1, le=1_000_000, description="Datasets kept per corpus, besides those of kept versions."
    )
    days: int = Field(
        HISTORY_DAYS,
        ge=0,
        le=36_500,
        description="Days to keep histories of MLflow and Prefect, runs without a version, and caches.",
    )
    recent_hours: float = Field(24.0, ge=0.0, le=876_000.0, description="Everything used in the last hours is kept.")
    dry_run: bool = Field(False, description="Only report what would go, and remove nothing.")
