"""An error is worth a retry if its cause may disappear, but not if only the user can remove it."""

import pytest

from rnnlm.errors import CorpusError, FetchError, HomeError, RnnlmError, TrackingError, close_to, is_worth_a_retry


@pytest.mark.parametrize(
    ("error", "worth"),
    [
        (FetchError("the server answered 503"), True),
        (TrackingError("MLflow is away"), True),
        (OSError("connection reset"), True),
        (KeyError("a defect of ours"), True),
        (CorpusError("text.txt is empty"), False),
        (HomeError("the disk is full"), False),
        (RnnlmError("unknown setting"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_may_go_away_is_retried(error: Exception, worth: bool) -> None:
    assert is_worth_a_retry(error) is worth


def test_the_nearest_name_is_suggested_or_none() -> None:
    assert close_to("pharses", ["phrases", "words"]) == "; did you mean phrases?"
    assert close_to("xyz", ["phrases", "words"]) == ""
