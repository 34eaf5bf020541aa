"""Training's state comes back whole, the global random generators too."""

import re
from pathlib import Path

import pytest

from tests.rnnlm.training.trainer import Trainer


@pytest.mark.long
def test_what_concerns_the_global_generators_in_a_process_without_other_threads(trainer: Trainer) -> None:
    """In this one, threads of Prefect draw from Python's generator whenever they like."""
    said = trainer.run_tests(Path(__file__).with_name("global_generators.py"))
    assert re.search(r"^7 passed", said, re.MULTILINE), said
