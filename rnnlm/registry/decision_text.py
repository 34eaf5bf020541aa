"""A night's decision in a few words, for messages and pages."""

from datetime import datetime

from rnnlm.storage.result_records import RegisteredVersion, TrainedRecord
from rnnlm.tracking.run_names import short_date

MINIMUM = "(registry.minimum_units)"  # in the reason of rnnlm/registry/promotion.py


def unchanged_since(record: TrainedRecord) -> str:
    """`unchanged since 21 Nov 02:04`: since then there is a version of this text, these settings and this program."""
    created = record.registered.created
    return f"unchanged since {short_date(datetime.fromisoformat(created))}" if created else "unchanged"


def verdict(registered: RegisteredVersion) -> str:
    """The reason, without the figures that the table of the evidence shows."""
    words, figures, _ = registered.reason.partition(" nats per byte against ")
    short = words.rpartition(": ")[0]
    is_plain = figures and "(" not in short.replace(MINIMUM, "")  # else an alias was moved since
    return short if registered.evidence and is_plain else registered.reason
