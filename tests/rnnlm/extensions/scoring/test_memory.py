"""The peak memory of scoring does not grow if the text is ten times as long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnnlm.extensions.scoring import bulk_scoring
from rnnlm.storage.home import Home
from tests.rnnlm.extensions.scoring.conftest import LINES, Configure

SCRIPT = """
import resource, sys
from pathlib import Path
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.storage.home import Home
from rnnlm.extensions.scoring.drift import measure_drift
from rnnlm.extensions.scoring.bulk_scoring import score_texts

home, config = Home(Path(sys.argv[1])), ScoringConfig.model_validate_json(sys.argv[2])
scoring = score_texts(home, config)
measure_drift(home, config, scoring)
print(scoring.totals.documents, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_mebibytes(home: Home, configure: Configure, folder: Path, documents: int) -> float:
    """Return the peak memory in MiB of a process that scores `documents` lines and measures their drift."""
    text = folder / f"{documents}.txt"
    text.write_text("".join(f"{LINES[number % len(LINES)]}\n" for number in range(documents)))
    config = configure(input=str(text), output=str(folder / f"{documents}.parquet"), shard_documents=4_096)
    environment = os.environ | {"PYTHONPATH": str(Path(bulk_scoring.__file__).parents[3])}
    command = [sys.executable, "-c", SCRIPT, str(home.root), config.model_dump_json()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    scored, kibibytes = map(int, done.stdout.split()[-2:])
    assert scored == documents
    return kibibytes / 1024


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(home: Home, configure: Configure, tmp_path: Path) -> None:
    few, many = (peak_mebibytes(home, configure, tmp_path, documents) for documents in (10_000, 100_000))
    assert many < few + 40
