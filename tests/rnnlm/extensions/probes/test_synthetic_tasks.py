"""The targets of each synthetic task agree with an independent definition in plain Python."""

from collections.abc import Callable

import pytest
import torch

from rnnlm.extensions.probes.synthetic_tasks import (
    DYCK_DEPTH,
    copying_rows,
    counting_rows,
    dyck_rows,
    echo_rows,
    modulo_rows,
    parity_rows,
    recall_rows,
)

PAD, EOS = 0, 3
Rows = list[tuple[list[int], list[int]]]


def made(rows: Callable[..., tuple[torch.Tensor, torch.Tensor]], count: int, length: int) -> Rows:
    input_ids, target_ids = rows(count, length, torch.Generator().manual_seed(0))
    assert input_ids.shape == target_ids.shape
    return list(zip(input_ids.tolist(), target_ids.tolist(), strict=True))


def test_parity_and_counting_are_those_of_the_ones_so_far() -> None:
    for rows, modulus in ((parity_rows, 2), (modulo_rows, 3)):
        found = made(rows, 50, 9)
        for bits, answers in found:
            assert set(bits) <= {4, 5}  # The ids of the bits 0 and 1 follow the ids of the four special tokens.
            assert answers == [4 + bits[: time + 1].count(5) % modulus for time in range(9)]
        assert len({tuple(bits) for bits, _ in found}) > 40
    ones = counting_rows(1_000, 50, 2, torch.Generator().manual_seed(0))[0] - 4
    assert float(ones.double().mean()) == pytest.approx(0.5, abs=0.01)


def test_after_a_closed_bracket_the_answer_is_what_may_be_closed_next() -> None:
    """The target after a closing bracket is the bracket that can be closed next, according to a stack.

    The ids of ( [ ) ] are 4 5 6 7.
    """
    deepest, asked_of = 0, set()
    for brackets, answers in made(dyck_rows, 200, 30):
        stack: list[int] = []
        for bracket, answer in zip(brackets, answers, strict=True):
            if bracket in (4, 5):
                stack.append(bracket)
                assert answer == PAD
            else:
                assert stack.pop() == bracket - 2  # The brackets are properly nested.
                assert answer == (stack[-1] + 2 if stack else EOS)
                asked_of.add(answer)
            deepest = max(deepest, len(stack))
    assert deepest == DYCK_DEPTH
    assert asked_of == {EOS, 6, 7}


def test_copying_asks_for_the_symbols_in_order_after_the_cue() -> None:
    for inputs, targets in made(copying_rows, 50, 8):
        symbols, cue = inputs[:4], 4 + 16
        assert inputs[4:] == [cue, *symbols[:3]]
        assert targets == [PAD] * 4 + symbols
        assert all(4 <= symbol < cue for symbol in symbols)


def test_echo_asks_for_the_first_symbol_at_the_cue() -> None:
    for inputs, targets in made(echo_rows, 50, 6):
        assert inputs[-1] == 4 + 8
        assert targets == [PAD] * 5 + inputs[:1]


def test_recall_asks_for_the_value_of_each_key_once() -> None:
    orders = set()
    for inputs, targets in made(recall_rows, 50, 9):
        value_of = dict(zip(inputs[0:6:2], inputs[1:6:2], strict=True))
        assert len(value_of) == 3  # No key occurs twice.
        assert all(4 <= key < 68 <= value < 84 for key, value in value_of.items())
        assert sorted(inputs[6:]) == sorted(value_of)
        assert targets == [PAD] * 6 + [value_of[key] for key in inputs[6:]]
        orders.add(tuple(inputs[6:].index(key) for key in value_of))
    assert len(orders) == 6  # All six orders of three keys occur.
