"""A run that continues with another number of processes uses the same batches and restores the state of every lane."""

import re
from pathlib import Path

import pytest

from tests.rnnlm.training.trainer import Trainer


@pytest.mark.slow
def test_runs_continue_with_other_numbers_of_processes(trainer: Trainer) -> None:
    said = trainer.run_tests(Path(__file__).with_name("resizing_checks.py"))
    assert re.search(r"^21 passed", said, re.MULTILINE), said
