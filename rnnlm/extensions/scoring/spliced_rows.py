"""Copy the rows of a file with added or replaced values, and leave every other byte unchanged.

The bytes are decoded with a codec that maps each byte to one character. In UTF-16 and UTF-32, each code unit becomes
one character. Bytes that are invalid in the file's encoding therefore remain unchanged.
"""

import codecs
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rnnlm.corpora.compression import OpenFile
from rnnlm.corpora.csv_dialects import Dialect
from rnnlm.corpora.text_encoding import BYTE_ORDER_MARKS, is_utf_8
from rnnlm.errors import CorpusError
from rnnlm.extensions.scoring.input_files import InputFile

JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]', re.DOTALL)
JSON_SPACE = " \t\r\n"


class Script(NamedTuple):
    """The codec that maps a file's bytes to text and back, and the decoded byte-order mark."""

    encoding: str  # The encoding in which the file is written.
    codec: str  # The codec that decodes the file's bytes and encodes the output.
    errors: str
    mark: str = ""

    def lines(self, opened: OpenFile, label: str) -> Iterator[str]:
        """Yield the lines after the byte-order mark, including line ends.

        Line ends are recognized in the same way as when the file is read for scoring.
        """
        reader = io.TextIOWrapper(opened, self.codec, self.errors, newline="")
        try:
            reader.read(len(self.mark))
            yield from reader
        except UnicodeDecodeError as error:
            raise CorpusError(f"{label}: cannot be copied ({error.reason}); convert it to UTF-8") from error

    def carried(self, text: str) -> str:
        """Return the text in the form for `codec`, which encodes it to the bytes of the file's encoding.

        Characters that the file's encoding lacks are replaced by escape sequences.
        """
        if self.codec != "latin-1":
            return text
        return text.encode(self.encoding, "backslashreplace").decode("latin-1")


JSON_SCRIPT = Script("utf-8", "utf-8", "strict")


def script_of(file: InputFile, head: bytes) -> Script:
    """Return the script of a file, whose first bytes are `head`.

    Raise CorpusError if line ends in the file's encoding differ from those in ASCII.
    """
    mark = next((mark for mark in BYTE_ORDER_MARKS if head.startswith(mark)), b"")
    # A concatenated file may begin with two byte-order marks, both of which the reader skips.
    count = 2 if mark and head.startswith(mark * 2) else 1
    wide = re.fullmatch(r"utf-(?:16|32)(?:-[lb]e)?", codecs.lookup(file.encoding).name)
    if wide:
        codec = wide[0]
        if not codec.endswith("e"):  # The byte-order mark determines the byte order.
            codec += "-be" if mark in (codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE) else "-le"
        return Script(file.encoding, codec, "surrogatepass", (mark * count).decode(codec))
    # The encoding utf-8-sig would write a byte-order mark into each cell.
    encoding = "utf-8" if is_utf_8(file.encoding) else file.encoding
    if "\r\n".encode(encoding) != b"\r\n":
        raise CorpusError(f"{file.label}: is in {file.encoding}, in which it cannot be copied; convert it to UTF-8")
    return Script(encoding, "latin-1", "strict", (mark * count).decode("latin-1"))


def with_members(line: str, members: Mapping[str, str]) -> str:
    """Insert members into the line of a JSON object. Existing members of the same names are replaced in place.

    The values of `members` are JSON.
    """
    added = dict(members)
    # A line has none of the members if it contains neither their names nor a \u escape.
    if any(name in line for name in members) or "\\u" in line:
        parts, end = [], 0
        for name, start, stop in member_values(line):
            if name in members:
                added.pop(name, None)
                parts += [line[end:start], members[name]]
                end = stop
        line = "".join([*parts, line[end:]])
    before = line.rstrip(JSON_SPACE).removesuffix("}").rstrip(JSON_SPACE)
    comma = "" if before.endswith("{") else ", "
    spelled = ", ".join(f'"{name}": {value}' for name, value in added.items())
    return f"{before}{comma if spelled else ''}{spelled}{line[len(before) :]}"


def member_values(line: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each member of a JSON object, and the start and end of its value in the line.

    Members of nested objects are not yielded.
    """
    depth = start = 0
    text = name = ""
    for token in JSON_TOKEN.finditer(line):
        mark = token[0]
        if depth == 1 and mark == ":":
            name, start = json.loads(text, strict=False), token.end()
        elif depth == 1 and mark[0] == '"':
            text = mark
        elif depth == 1 and mark in ",}" and start:
            value = line[start : token.start()]
            yield name, start + len(value) - len(value.lstrip(JSON_SPACE)), start + len(value.rstrip(JSON_SPACE))
            start = 0
        depth += (mark in "{[") - (mark in "}]")


def with_cells(record: str, heads: list[str], values: Mapping[str, str], dialect: Dialect) -> str:
    """Insert cells into a row of a csv file, in the columns with these names or else after the last heading.

    A row that is too short is filled with empty cells. Cells beyond the last heading remain at the end.
    """
    cells = dialect.cells_as_they_stand(record)
    line_end = record[len(dialect.delimiter.join(cells)) :]
    cells += [""] * (len(heads) - len(cells))
    for place, head in enumerate(heads):
        cells[place] = values.get(head, cells[place])
    new = [value for name, value in values.items() if name not in heads]
    return dialect.delimiter.join([*cells[: len(heads)], *new, *cells[len(heads) :]]) + line_end


def with_columns(rows: pa.Table, fields: Sequence[pa.Field], columns: Sequence[pa.Array]) -> pa.Table:
    """Return the rows with these columns added. Columns with the same names are replaced in place."""
    schema = schema_with(rows.schema, fields)
    added = {field.name: column for field, column in zip(fields, columns, strict=True)}
    own = [*rows.columns, *[None] * (len(schema) - rows.num_columns)]
    return pa.Table.from_arrays(
        [added.get(field.name, column) for field, column in zip(schema, own, strict=True)], schema=schema
    )


def schema_with(schema: pa.Schema, fields: Sequence[pa.Field]) -> pa.Schema:
    """Return the schema with these fields added. Fields with the same names are replaced in place."""
    for field in fields:
        places = schema.get_all_field_indices(field.name)
        for place in places:
            schema = schema.set(place, field)
        schema = schema if places else schema.append(field)
    return schema


def rows_where(table: pa.Table, chosen: pa.Array) -> pa.Table:
    """Return the chosen rows of a table.

    Views of strings are converted to strings, because Arrow cannot filter views.
    """
    plain = pa.schema([field.with_type(without_views(field.type)) for field in table.schema], table.schema.metadata)
    return table.cast(plain).filter(chosen).cast(table.schema)


def without_views(kind: Any) -> Any:
    """Return the Arrow type with strings and bytes in place of views of them, inside structs and lists, too."""
    if "_view" not in str(kind):  # Deeply nested types have no views, and would exceed the depth of recursion.
        return kind
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(without_views(kind.key_type), without_views(kind.item_type), kind.keys_sorted)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = kind.value_field.with_type(without_views(kind.value_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(values, kind.list_size)
        return pa.large_list(values) if pa.types.is_large_list(kind) else pa.list_(values)
    return kind
