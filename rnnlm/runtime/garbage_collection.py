"""The garbage collector during the imports of large libraries, which then take about a sixth less time.

An import creates many objects and hardly any cycles. With Python's default threshold, the collector often visits all of
them in vain.
"""

import gc

USUAL_THRESHOLDS = gc.get_threshold()
IMPORT_THRESHOLD = 50_000  # The number of new objects after which a collection begins during imports.


def collect_rarely() -> None:
    """Let the collector run rarely. Call it before imports."""
    gc.set_threshold(IMPORT_THRESHOLD)


def collect_as_usual() -> None:
    """Let the collector run as usual again.

    This does not freeze the objects of the imports: DuckDB would then print a list of leaked objects at exit.
    """
    gc.set_threshold(*USUAL_THRESHOLDS)
