"""The displayed names of runs contain no paths and no digests."""

import pytest

from rnnlm.tracking.run_names import page_key


@pytest.mark.parametrize(
    ("corpus", "key"), [("tickets", "tickets-summary"), ("my_text.v2", "my-text-v2-summary"), ("Ä", "summary")]
)
def test_keys_have_the_letters_that_prefect_allows(corpus: str, key: str) -> None:
    assert page_key(corpus, "summary") == key
