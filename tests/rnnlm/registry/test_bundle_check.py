"""The error of a failed check of a bundle says what to do.

Every test that registers a model tests successful checks.
"""

from pathlib import Path

import pytest

from rnnlm.errors import ModelError
from rnnlm.registry import bundle_check


@pytest.mark.parametrize(
    ("script", "seconds", "message"),
    [
        ("import time; time.sleep(60)", 0.2, "took longer than 0.2 s"),
        ("import os; os.kill(os.getpid(), 9)", 60, "exit code -9.\nRun the same command again"),
        ("import rnnlm", 60, "The module of a layer may import torch"),
    ],
)
def test_a_failed_check_says_what_to_do(
    script: str, seconds: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'import sys; sys.modules["rnnlm"] = None; '
    monkeypatch.setattr(bundle_check, "SCRIPT", refuse + script)
    monkeypatch.setattr(bundle_check, "TIMEOUT_SECONDS", seconds)
    with pytest.raises(ModelError) as caught:
        bundle_check.check_bundle(tmp_path)
    assert message in str(caught.value)
    assert "the trained model is kept" in str(caught.value)
