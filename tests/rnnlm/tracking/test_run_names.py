"""Names that people read: no paths, no digests."""

from datetime import datetime

import pytest

from rnnlm.tracking.run_names import page_key, run_name


def test_a_run_is_named_after_corpus_preset_and_date() -> None:
    assert run_name("tickets", "smoke", datetime(2026, 11, 3, 2, 0)) == "tickets · smoke · 3 Nov 02:00"
    assert run_name("settle", "", datetime(2026, 11, 23, 14, 30)) == "settle · 23 Nov 14:30"


@pytest.mark.parametrize(
    ("corpus", "key"), [("tickets", "tickets-summary"), ("my_text.v2", "my-text-v2-summary"), ("Ä", "summary")]
)
def test_keys_have_the_letters_that_prefect_allows(corpus: str, key: str) -> None:
    assert page_key(corpus, "summary") == key
