"""Upkeep of a home: retention removes what is no longer needed, a backup copies what must not be lost."""

HISTORY_DAYS = 30  # how long histories of MLflow and Prefect are kept, by default
