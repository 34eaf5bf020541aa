"""One network learns one task and is stored."""

import pytest

from rnnlm.home import Home
from rnnlm.probes import abilities
from rnnlm.probes.run_probes import stored_ability
from tasks.measure_ability import measure_ability
from tests.tasks.comparisons import ABILITIES


@pytest.mark.long
def test_a_network_is_measured_and_stored(home: Home) -> None:
    score = measure_ability.fn(stored_ability, home, ABILITIES, "elman", "parity", 0, False)
    assert score == abilities.measure_ability(ABILITIES, "elman", "parity", seed=0)
    (path,) = home.probes.glob("ability-*.json")
    written = path.stat().st_mtime_ns
    assert measure_ability.fn(stored_ability, home, ABILITIES, "elman", "parity", 0, False) == score
    assert path.stat().st_mtime_ns == written
