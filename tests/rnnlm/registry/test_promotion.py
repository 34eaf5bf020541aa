"""The rule of promotion, case by case."""

import pytest

from rnnlm.config import RegistryConfig
from rnnlm.registry.naming import registered_name
from rnnlm.registry.promotion import Standing, decide

CHAMPION = Standing(version=3, dataset_id="a", validation_perplexity=100.0)


def test_the_first_version_is_champion() -> None:
    assert decide(Standing(1, "a", 900.0), None).alias == "champion"


@pytest.mark.parametrize(
    ("perplexity", "alias"),
    [(99.9, "champion"), (100.0, "challenger"), (100.1, "challenger"), (None, "challenger")],
)
def test_only_a_strictly_better_one_takes_over(perplexity: float | None, alias: str) -> None:
    assert decide(Standing(4, "a", perplexity), CHAMPION).alias == alias


def test_the_reason_gives_both_figures() -> None:
    assert decide(Standing(4, "a", 120.5), CHAMPION).reason == (
        "not better: validation perplexity 120.5000 against 100.0000 of champion version 3"
    )


def test_another_dataset_is_not_comparable_however_low_its_perplexity() -> None:
    decision = decide(Standing(4, "b", 1.5), CHAMPION)
    assert decision.alias == "challenger"
    assert "not comparable" in decision.reason


def test_not_a_number_never_wins() -> None:
    assert decide(Standing(4, "a", float("nan")), CHAMPION).alias == "challenger"


def test_a_model_is_named_after_its_corpus_unless_it_is_named() -> None:
    assert registered_name(RegistryConfig(), "python-docs") == "rnnlm-python-docs"
    assert registered_name(RegistryConfig(model_name="mine"), "python-docs") == "mine"
