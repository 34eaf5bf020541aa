"""The garbage collector runs rarely during imports, and as usual after them."""

import subprocess
import sys

PROGRAM = """
import gc
from rnnlm.runtime.garbage_collection import collect_as_usual, collect_rarely

usual = gc.get_threshold()
collect_rarely()
assert gc.get_threshold() != usual
import duckdb
collect_as_usual()
assert gc.get_threshold() == usual
duckdb.connect().execute("SELECT 1").fetchall()
"""


def test_a_program_that_used_duckdb_ends_without_a_message() -> None:
    """DuckDB would print a list of leaked objects at exit if the objects of the imports had been frozen."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert ended.stdout == ""
