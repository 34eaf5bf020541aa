"""The measured peak memory of a process is plausible."""

from pathlib import Path

import pytest

from rnnlm.extensions.comparison import training_costs


@pytest.mark.skipif(not training_costs.LINUX_STATUS.exists(), reason="compares Linux's figure with that of all systems")
def test_the_peak_memory_is_known_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_linux = training_costs.peak_mebibytes()
    monkeypatch.setattr(training_costs, "LINUX_STATUS", tmp_path / "missing")
    # getrusage may return a larger value than /proc, because it includes the memory of the parent process.
    assert of_linux <= training_costs.peak_mebibytes() + 1
    assert training_costs.peak_mebibytes() < 50 * of_linux  # A wrong unit would differ by a factor of 1,024.
