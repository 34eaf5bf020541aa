"""poll_until() checks a condition repeatedly for a limited time."""

import pytest

from rnnlm.runtime.polling import poll_until


def test_it_asks_until_the_condition_holds() -> None:
    answers = [False, False, True, True]
    assert poll_until(lambda: answers.pop(0), 60, every_seconds=0)
    assert answers == [True]


def test_it_gives_up_but_asks_at_least_once() -> None:
    asked = []
    assert not poll_until(lambda: bool(asked.append("asked")), -1)
    assert asked == ["asked"]


def test_only_the_named_errors_mean_not_yet() -> None:
    answers = iter([ConnectionError(), ValueError()])

    def condition() -> bool:
        raise next(answers)

    with pytest.raises(ValueError):
        poll_until(condition, 60, every_seconds=0, ignored=ConnectionError)
