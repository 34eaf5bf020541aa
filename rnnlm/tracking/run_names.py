"""The names of runs in Prefect and MLflow, composed of corpus, preset and date, and the keys of pages in Prefect."""

import re
from datetime import datetime

PROMOTED, UNCHANGED = "promoted", "unchanged"  # Tags of a finished pipeline run.
OWN_SCHEDULE = "own-schedule"  # The tag of a deployment that `rnnlm schedule` created.


def run_name(title: str, preset: str, planned: datetime) -> str:
    """Return a text such as `tickets · smoke · 23 Nov 02:00`, in local time."""
    return " · ".join(filter(None, [title, preset, short_date(planned)]))


def short_date(moment: datetime) -> str:
    """Return a time as text such as `23 Nov 02:00`, in local time."""
    local = moment.astimezone()
    return f"{local.day} {local:%b %H:%M}"


def page_key(corpus_name: str, page: str) -> str:
    """Return the key of one of a corpus's pages in Prefect, such as `tickets-summary`.

    All pages with the same key form the history of a page. Prefect allows only a-z, 0-9 and dashes in a key.
    """
    return re.sub(r"[^a-z0-9]+", "-", f"{corpus_name}-{page}".lower()).strip("-")
