"""Values can be added to unusual rows of every format. Adding values changes nothing else in a file."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnlm.corpora.csv_dialects import Dialect, Quoting
from rnnlm.extensions.scoring.spliced_rows import member_values, with_cells, with_members

OURS = {"bits_per_byte": "1.5", "reason": '"not x"'}
SPACE = st.text(alphabet=" \t\r", max_size=2)
KEYS = st.sampled_from([
    *('"text"', '"a"', '"a"', '""', '"é"', '"bits_per_byte"', '"reason"', '"bits_per_byte "', '"re\\u0061son"'),
    *('"\\""', '"{"', '"}\\\\"', '"\\ud83d"', '",\\"reason\\": 1"'),
])  # fmt: skip
LEAVES = st.sampled_from([
    *("1e400", "1.10", "-0", "12345678901234567890.5", "7" * 5_000, "null", "true", "NaN", "{}", "[ ]"),
    *('"x"', '"\\ud83d"', '"}"', '"\\\\"', '"\\"reason\\": 2"', '"]"', '"bits_per_byte"', '"\t"', '"\x85\xa0"'),
])  # fmt: skip


@st.composite
def objects(draw: Any, values: Any) -> str:
    members = draw(st.lists(st.tuples(SPACE, KEYS, SPACE, SPACE, values, SPACE), max_size=4))
    inner = ",".join(f"{a}{key}{b}:{c}{value}{d}" for a, key, b, c, value, d in members)
    return "{" + (inner or draw(SPACE)) + "}"


def lists(values: Any) -> Any:
    return st.lists(values, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")


VALUES = st.recursive(LEAVES, lambda values: objects(values) | lists(values), max_leaves=5)
LINES = st.tuples(SPACE, objects(VALUES), SPACE, st.sampled_from(["", "\n", "\r\n"])).map("".join)


def pairs_of(line: str) -> list[tuple[str, Any]]:
    """Return the members of a JSON object in order, including repeated ones. Numbers stay strings, as written."""
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=list, parse_int=str, parse_float=str, parse_constant=str)
    return decoder.decode(line)  # type: ignore[no-any-return]


@given(line=LINES, names=st.sampled_from([["bits_per_byte"], ["bits_per_byte", "reason"]]))
def test_a_line_of_json_differs_by_our_members_alone(line: str, names: list[str]) -> None:
    members = {name: OURS[name] for name in names}
    values = {name: json.loads(value, parse_float=str) for name, value in members.items()}
    before = pairs_of(line)
    there = {name for name, _ in before}
    expected = [(name, values.get(name, value)) for name, value in before]
    expected += [(name, value) for name, value in values.items() if name not in there]
    written = with_members(line, members)
    assert pairs_of(written) == expected
    assert without(written, members, there) == without(line, members, there)
    # Adding the same values again changes nothing. This happens when an output is filtered again.
    assert with_members(written, members) == written


def without(line: str, members: dict[str, str], there: set[str]) -> str:
    """Return the line without the replaced values, and without the members that were added at the line's end."""
    added = [f'"{name}": {value}' for name, value in members.items() if name not in there]
    for text in (", ".join(["", *added]), ", ".join(added)) if added else ():
        head, found, tail = line.rpartition(text)
        if found and not tail.strip(" \t\r\n}"):
            line = head + tail
            break
    for name, start, end in reversed(list(member_values(line))):
        if name in members:
            line = line[:start] + line[end:]
    return line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"a": 1.10}\n', '{"a": 1.10, "bits_per_byte": 1.5}\n'),
        ("{}", '{"bits_per_byte": 1.5}'),
        ('{ "a":1 } \r\n', '{ "a":1, "bits_per_byte": 1.5 } \r\n'),
        ('{"m": {"bits_per_byte": 2}}\n', '{"m": {"bits_per_byte": 2}, "bits_per_byte": 1.5}\n'),
        ('{"bits_per_byte" :  2 ,"a":1}\n', '{"bits_per_byte" :  1.5 ,"a":1}\n'),
        ('{"reason": "mine", "a": "}"}\n', '{"reason": "mine", "a": "}", "bits_per_byte": 1.5}\n'),
        ('{"bits\\u005fper_byte": null}\n', '{"bits\\u005fper_byte": 1.5}\n'),
    ],
)
def test_the_place_of_a_member(line: str, expected: str) -> None:
    assert with_members(line, {"bits_per_byte": "1.5"}) == expected


CELL = st.text(alphabet='ab "\\,;\n\té', max_size=5)
HEADS = st.lists(st.sampled_from(["text", "a", "reason", "bits_per_byte", "text", ""]), min_size=1, max_size=4)


@given(
    heads=HEADS,
    row=st.lists(CELL, min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t"),
    quoting=st.sampled_from(["doubled", "backslash"]),
    line_end=st.sampled_from(["", "\n", "\r\n", "\r"]),
    names=st.sampled_from([["bits_per_byte"], ["bits_per_byte", "reason"]]),
)
def test_a_row_of_csv_differs_by_our_cells_alone(
    heads: list[str], row: list[str], delimiter: str, quoting: Quoting, line_end: str, names: list[str]
) -> None:
    dialect = Dialect(delimiter, quoting)
    # Some cells are quoted although they need not be.
    spelled = [f'"{cell}"' if cell.isalpha() else dialect.spelled(cell) for cell in row]
    record = delimiter.join(spelled) + line_end
    values = {name: dialect.spelled(OURS[name]) for name in names}
    written = with_cells(record, heads, values, dialect)
    assert written.endswith(line_end)
    columns = [*heads, *(name for name in names if name not in heads)]
    cells = dialect.cells_as_they_stand(written)
    assert [cells[place] for place, name in enumerate(columns) if name in names] == [
        values[name] for name in columns if name in names
    ]
    others = [cell for place, cell in enumerate(cells) if place >= len(columns) or columns[place] not in names]
    were = [cell for place, cell in enumerate(spelled) if place >= len(heads) or heads[place] not in names]
    missing = sum(name not in names for name in heads[len(row) :])
    assert others == were + [""] * missing
    ((_, read),) = dialect.records(iter([written])) if "\n" not in written.removesuffix(line_end) else [("", None)]
    assert read is None or len(read) == max(len(columns), len(row) + len(columns) - len(heads))
