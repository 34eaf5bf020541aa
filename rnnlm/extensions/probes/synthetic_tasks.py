"""Generate the synthetic tasks of `rnnlm probe abilities`, with rows of any length.

Each function returns input_ids and target_ids, which have shape (count, length) and type int64. The target at a
position is the answer after reading the input up to that position, or `<pad>` if there is no question. The ids of
symbols begin with FIRST_SYMBOL. If a task needs rows of an even length, or of a multiple of three, it rounds the length
down.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rnnlm.extensions.probes.probe_config import SyntheticTaskName
from rnnlm.tokenizers.text_tokenizer import EOS, PAD

FIRST_SYMBOL = 4  # The first id of a task's symbols. Lower ids are those of <pad>, <unk>, <bos> and <eos>.
MODULUS = 3
DYCK_DEPTH = 4  # The largest number of brackets that are open at the same time.
COPIED_SYMBOLS, ECHO_SYMBOLS = 16, 8
KEYS, VALUES = 64, 16  # The numbers of keys and values in associative recall. Each key occurs at most once in a row.


class SyntheticTask(NamedTuple):
    """A task with generated rows. Its `symbols` symbols have consecutive ids from FIRST_SYMBOL.

    rows(count, length, generator) returns input_ids and target_ids.
    """

    rows: Callable[[int, int, torch.Generator], tuple[Tensor, Tensor]]
    symbols: int
    shortest: int  # The length of the shortest row in tokens.

    @property
    def vocabulary_size(self) -> int:
        return FIRST_SYMBOL + self.symbols


def parity_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw random bits. Each target is the parity of the ones up to it: 1 0 1 1 has the targets 1 1 0 1."""
    return counting_rows(count, length, 2, generator)


def modulo_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw random bits. Each target is the number of ones up to it, modulo 3: 1 0 1 1 has the targets 1 1 2 0."""
    return counting_rows(count, length, MODULUS, generator)


def counting_rows(count: int, length: int, modulus: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    bits = torch.randint(2, (count, length), generator=generator)
    return FIRST_SYMBOL + bits, FIRST_SYMBOL + bits.cumsum(dim=1) % modulus


def dyck_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw nested brackets of two types, at most DYCK_DEPTH of them open at the same time.

    The target after a closing bracket is the bracket that may be closed next, or `<eos>` if none is open. In `([])[]`,
    the target after the first `]` is `)`, and after the other closing brackets it is `<eos>`. An opening bracket has no
    target, because the answer would always be the closing bracket of the same type. The ids are in the order `([)]`.
    """
    is_opened = torch.rand(count, length, generator=generator) < 0.5
    types = torch.randint(2, (count, length), generator=generator)
    # A stack of the types of open brackets. The types begin in column 1, and column 0 is the top of an empty stack.
    stack = torch.zeros(count, DYCK_DEPTH + 1, dtype=torch.int64)
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
    """Draw random symbols, a cue, and the same symbols again, which are the targets.

    The input a b c | a b has the targets - - - a b c.
    """
    size = length // 2
    symbols = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + COPIED_SYMBOLS, (count, size), generator=generator)
    cue = torch.full((count, 1), FIRST_SYMBOL + COPIED_SYMBOLS)
    return torch.cat([symbols, cue, symbols[:, :-1]], dim=1), torch.cat([torch.full_like(symbols, PAD), symbols], dim=1)


def echo_batch(count: int, distance: int, symbols: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw a symbol to remember, distance - 1 random symbols, and a cue. The target at the cue is the first symbol.

    The cue's id follows the ids of the symbols. The task is a simple case of those of Hochreiter and Schmidhuber
    (1997).
    """
    input_ids = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + symbols, (count, distance + 1), generator=generator)
    target_ids = torch.full_like(input_ids, PAD)
    target_ids[:, -1] = input_ids[:, 0]
    input_ids[:, -1] = FIRST_SYMBOL + symbols
    return input_ids, target_ids


def echo_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return echo_batch(count, length - 1, ECHO_SYMBOLS, generator)


def recall_rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw pairs of a key and a value, and then the keys again in another order, whose targets are their values.

    The input k1 v1 k2 v2 k2 k1 has the targets v2 v1 at its last two tokens. This is multi-query associative recall
    (Arora et al. 2023). The keys of a row are all different.
    """
    pairs = length // 3
    keys = torch.rand(count, KEYS, generator=generator).argsort(dim=1)[:, :pairs] + FIRST_SYMBOL
    values = torch.randint(FIRST_SYMBOL + KEYS, FIRST_SYMBOL + KEYS + VALUES, (count, pairs), generator=generator)
    order = torch.rand(count, pairs, generator=generator).argsort(dim=1)
    # The keys and values, alternating, of shape (count, 2 · pairs).
    told = torch.stack([keys, values], dim=2).flatten(1)
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
