"""A checkpoint restores the global random generators, too."""

import re
from pathlib import Path

import pytest

from tests.rnnlm.training.trainer import Trainer


@pytest.mark.long
def test_global_generators_in_a_process_without_other_threads(trainer: Trainer) -> None:
    """A separate process is needed, because threads of Prefect in this one draw from Python's generator at any time."""
    said = trainer.run_tests(Path(__file__).with_name("global_generator_checks.py"))
    assert re.search(r"^2 passed", said, re.MULTILINE), said
