"""What is claimed of the generation loop's speed, measured as benchmarks/generate.py does."""

import pytest
import torch

from benchmarks.generate import microseconds_a_token, model_of


@pytest.mark.slow
def test_a_token_costs_its_matrix_products_and_a_little_whatever_the_length() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        measured = microseconds_a_token(model_of(hidden=256, vocabulary=10_000), lengths=(100, 10_000), rounds=5)
    finally:
        torch.set_num_threads(threads)
    (short, above_short), (long, above_long) = measured[100], measured[10_000]
    assert max(above_short, above_long) <= 60  # microseconds a token
    assert abs(long / short - 1) <= 0.15
