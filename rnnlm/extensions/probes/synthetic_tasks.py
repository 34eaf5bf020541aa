"""Synthetic tasks of `rnnlm probe abilities`: rows of any length, made from a random generator.

Each function gives input_ids and target_ids, both (count, length) int64. The target at a position is what must be
named after reading the input up to there, `<pad>` where nothing is asked. Input and target symbols are ids from
FIRST_SYMBOL on. A task that needs rows of an even length, or a multiple of three, rounds the length down.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rnnlm.extensions.probes.probe_config import SyntheticTaskName
from rnnlm.tokenizers.text_tokenizer import EOS, PAD

FIRST_SYMBOL = 4  # ids below are <pad>, <unk>, <bos>, <eos>
MODULUS = 3
DYCK_DEPTH = 4  # most brackets open at once
COPIED_SYMBOLS, ECHO_SYMBOLS = 16, 8
KEYS, VALUES = 64, 16  # of associative recall; no key occurs twice in a row


class SyntheticTask(NamedTuple):
    """A task of made-up rows. symbols: how many ids from FIRST_SYMBOL on.

    rows(count, length, generator) returns input_ids and target_ids.
    """

    rows: Callable[[int, int, torch.Generator], tuple[Tensor, Tensor]]
    symbols: int
    shortest: int  # row, in tokens

    @property
    def vocabulary_size(self) -> int:
        return FIRST_SYMBOL + self.symbols


def parity_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw random bits, and at each tell if the number of ones so far is odd: 1 0 1 1 gives 1 1 0 1."""
    return counting_rows(count, length, 2, generator)


def modulo_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw random bits, and at each tell the number of ones so far modulo 3: 1 0 1 1 gives 1 1 2 0."""
    return counting_rows(count, length, MODULUS, generator)


def counting_rows(count: int, length: int, modulus: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    bits = torch.randint(2, (count, length), generator=generator)
    return FIRST_SYMBOL + bits, FIRST_SYMBOL + bits.cumsum(dim=1) % modulus


def dyck_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw nested brackets of two types, at most DYCK_DEPTH open; after each closing one, what may be closed next.

    ( [ ] ) [ ] → after ] the ), after the others `<eos>`, as nothing is open. After an opening bracket nothing is
    asked: the answer would be its own type. Ids: ( [ ) ].
    """
    is_opened = torch.rand(count, length, generator=generator) < 0.5
    types = torch.randint(2, (count, length), generator=generator)
    stack = torch.zeros(count, DYCK_DEPTH + 1, dtype=torch.int64)  # types, from 1 on; column 0: nothing is open
    depth = torch.zeros(count, dtype=torch.int64)
    rows = torch.arange(count)
    input_ids, target_ids = torch.empty(count, length, dtype=torch.int64), torch.full((count, length), PAD)
    for time in range(length):
        opens = (is_opened[:, time] | (depth == 0)) & (depth < DYCK_DEPTH)
        closed = stack[rows, depth]
        depth = depth + torch.where(opens, 1, -1)
        stack[rows[opens], depth[opens]] = types[opens, time]
        input_ids[:, time] = FIRST_SYMBOL + torch.where(opens, types[:, time], 2 + closed)
        next_closing = torch.where(depth > 0, FIRST_SYMBOL + 2 + stack[rows, depth], EOS)
        target_ids[:, time] = torch.where(opens, PAD, next_closing)
    return input_ids, target_ids


def copying_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw random symbols, a cue, and the same symbols again: the targets of a b c | a b are - - - a b c."""
    size = length // 2
    symbols = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + COPIED_SYMBOLS, (count, size), generator=generator)
    cue = torch.full((count, 1), FIRST_SYMBOL + COPIED_SYMBOLS)
    return torch.cat([symbols, cue, symbols[:, :-1]], dim=1), torch.cat([torch.full_like(symbols, PAD), symbols], dim=1)


def echo_batch(count: int, distance: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw a symbol to remember, distance - 1 random ones, and a cue, where the first one must be named.

    The cue's id follows those of the symbols. In its simplest form this goes back to Hochreiter and Schmidhuber (1997).
    """
    input_ids = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + symbols, (count, distance + 1), generator=generator)
    target_ids = torch.full_like(input_ids, PAD)
    target_ids[:, -1] = input_ids[:, 0]
    input_ids[:, -1] = FIRST_SYMBOL + symbols
    return input_ids, target_ids


def echo_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return echo_batch(count, length - 1, ECHO_SYMBOLS, generator)


def recall_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw pairs of a key and a value, then each key again in another order, where its value must be named.

    k1 v1 k2 v2 | k2 k1 → v2 v1 at the last two: multi-query associative recall (Arora et al. 2023). Keys differ.
    """
    pairs = length // 3
    keys = torch.rand(count, KEYS, generator=generator).argsort(dim=1)[:, :pairs] + FIRST_SYMBOL
    values = torch.randint(FIRST_SYMBOL + KEYS, FIRST_SYMBOL + KEYS + VALUES, (count, pairs), generator=generator)
    order = torch.rand(count, pairs, generator=generator).argsort(dim=1)
    told = torch.stack([keys, values], dim=2).flatten(1)  # (count, 2 · pairs)
    input_ids = torch.cat([told, keys.gather(1, order)], dim=1)
    return input_ids, torch.cat([torch.full_like(told, PAD), values.gather(1, order)], dim=1)


TASKS: dict[SyntheticTaskName, SyntheticTask] = {
    "parity": SyntheticTask(parity_rows, 2, 1),
    "modulo-3": SyntheticTask(modulo_rows, MODULUS, 1),
    "dyck-2": SyntheticTask(dyck_rows, 4, 2),
    "copying": SyntheticTask(copying_rows, COPIED_SYMBOLS + 1, 2),
    "echo": SyntheticTask(echo_rows, ECHO_SYMBOLS + 1, 2),
    "recall": SyntheticTask(recall_rows, KEYS + VALUES, 3),
}
