"""Every probe's picture is a PNG, whatever was measured."""

from pathlib import Path

import pytest

from rnnlm.lab.probes.probe_plots import (
    draw_abilities,
    draw_gradient_comparison,
    draw_gradient_flow,
    nonzero,
)
from rnnlm.lab.probes.probe_records import (
    AbilityComparison,
    GradientComparison,
    GradientCurve,
    GradientFlowRecord,
)
from tests.ability_scores import ability_score


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_vanished_gradients_are_not_plotted_on_a_logarithmic_scale() -> None:
    assert nonzero([0.5, 0.0, 0.25]) == ([0, 2], [0.5, 0.25])


@pytest.mark.long
def test_a_flow_is_drawn_even_where_nothing_is_left(tmp_path: Path) -> None:
    for norms in (((1.0, 0.1), (0.5, 0.2)), ((1.0, 0.0, 0.0),), ((0.0,),)):
        record = GradientFlowRecord(norms=norms, rows=3, picture=tmp_path / "flow.png")
        draw_gradient_flow(record, record.picture)
        assert is_png(record.picture)
        record.picture.unlink()


@pytest.mark.long
def test_a_comparison_is_drawn_even_where_a_network_is_dead(tmp_path: Path) -> None:
    curves = [
        GradientCurve(nonlinearity=kind, start=start, trained_steps=steps, norms=((norm, norm / 2, 0.0),))
        for kind in ("tanh", "relu")
        for start in ("xavier", "identity × 2")
        for steps in (0, 5)
        for norm in ((0.0,) if steps and kind == "relu" else (1.0,))
    ]
    found = GradientComparison(key="k", settings={}, picture=tmp_path / "comparison.png", curves=curves)
    draw_gradient_comparison(found, found.picture)
    assert is_png(found.picture)


def test_abilities_are_drawn_for_one_network_and_length_or_for_many(tmp_path: Path) -> None:
    for networks, lengths in ((("gru",), (24,)), (("gru", "lstm"), (24, 48, 96))):
        scores = tuple(
            ability_score(network, task, accuracies=[0.2] * len(lengths), lengths=lengths)
            for network in networks
            for task in ("parity", "echo")
        )
        found = AbilityComparison(key="k", settings={}, picture=tmp_path / "abilities.png", scores=scores)
        draw_abilities(found, found.picture)
        assert is_png(found.picture)
        found.picture.unlink()
