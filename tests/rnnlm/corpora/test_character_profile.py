import math
from pathlib import Path

import pytest

from rnnlm.corpora import character_profile
from rnnlm.corpora.character_profile import character_distance, count_characters


def test_distance_is_0_for_equal_shares_and_1_without_a_common_character() -> None:
    assert character_distance({"a": 1, "b": 3}, {"a": 10, "b": 30}) == 0
    assert character_distance({"a": 5}, {"b": 7}) == 1
    assert character_distance({}, {"b": 7}) == 0


def test_distance_of_half_a_half_b_from_all_a() -> None:
    # The mean distribution is a 3/4, b 1/4. The divergence from it is 1/2 log2(2/3) + 1/2 log2(2) bits for the first
    # profile, and log2(4/3) bits for the second. The distance is the square root of the mean of both divergences.
    divergence = (0.5 * math.log2(2 / 3) + 0.5) / 2 + math.log2(4 / 3) / 2
    assert character_distance({"a": 1, "b": 1}, {"a": 9}) == pytest.approx(math.sqrt(divergence))
    assert character_distance({"a": 9}, {"a": 1, "b": 1}) == pytest.approx(math.sqrt(divergence))


def test_a_large_text_is_sampled_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The size is odd, so some chunks begin in the middle of an ä.
    monkeypatch.setattr(character_profile, "CHUNK_BYTES", 101)
    text = tmp_path / "a.txt"
    text.write_bytes("äb".encode() * 5_000 + b"c" * 5_000)
    assert text.stat().st_size > 64 * 101
    sampled = count_characters(text)
    assert 64 * 101 * 0.7 < sampled["ä"] * 2 + sampled["b"] + sampled["c"] <= 64 * 101
    assert character_distance(sampled, {"ä": 5_000, "b": 5_000, "c": 5_000}) < 0.05
