"""A filter writes each document unchanged to one of two folders, with its score."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rnnlm.errors import ConfigError, CorpusError
from rnnlm.extensions.scoring.bulk_scoring import score_texts
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.filter_page import filter_page
from rnnlm.extensions.scoring.filtered_files import OutputFolder
from rnnlm.extensions.scoring.input_files import InputFile, find_inputs
from rnnlm.extensions.scoring.reference_scores import keep_references
from rnnlm.extensions.scoring.text_filter import FilterRecord, check_filter, filter_texts, scoring_of
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, zip_of
from tests.rnnlm.extensions.scoring.conftest import LINES

Filter = Callable[..., FilterRecord]
UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda data: bytes(pa.CompressedInputStream(io.BytesIO(data), "zstd").read()),
}
RULE = "bits_per_byte < 1.5"


@pytest.fixture
def filtered(home: Home, tmp_path: Path, toy_run: RunRecord) -> Filter:
    """Return a function that filters an input of the toy grammar into tmp_path/kept and tmp_path/dropped."""

    def run(path: Path | str, **fields: Any) -> FilterRecord:
        defaults = {
            "input": str(path),
            "output": str(tmp_path / "kept"),
            "dropped": str(tmp_path / "dropped"),
            "model": str(toy_run.model_folder),
            "device": "cpu",
        }
        config = FilterConfig.model_validate(defaults | (fields or {"keep": RULE}))
        check_filter(config)
        return filter_texts(home, config, score_texts(home, scoring_of(config)))

    return run


def rows_of(line_count: int = len(LINES)) -> list[dict[str, Any]]:
    """Return rows with a blank text, a null, numbers that Python would write differently, and nested values."""
    rows = [{"n": 1.5e3 * n, "text": line, "tags": {"a": [n, None]}} for n, line in enumerate(LINES[:line_count])]
    return [*rows, {"n": 0.1, "text": None, "tags": {"a": []}}]


def sides(found: FilterRecord) -> tuple[int, int]:
    """Return the numbers of kept and dropped documents."""
    counts = {row["reason"]: row["documents"] for row in found.counts}
    kept = counts.pop(None, 0)
    return kept, sum(counts.values())


@pytest.mark.parametrize(
    "suffix", ["", ".gz", *(pytest.param(suffix, marks=pytest.mark.long) for suffix in (".bz2", ".xz", ".zst"))]
)
def test_lines_are_copied_byte_for_byte_in_their_compression(filtered: Filter, tmp_path: Path, suffix: str) -> None:
    pack = COMPRESSIONS[suffix] if suffix else bytes
    (tmp_path / f"a.txt{suffix}").write_bytes(pack("".join(f"{line}\n" for line in LINES).encode()))
    found = filtered(tmp_path / f"a.txt{suffix}")
    kept = lines_in(tmp_path / "kept" / f"a.txt{suffix}")
    dropped = [json.loads(line) for line in lines_in(tmp_path / "dropped" / f"a.txt.jsonl{suffix}")]
    assert [line for line in LINES if line in kept] == kept
    assert sorted([*kept, *(row["text"] for row in dropped)]) == sorted(LINES)
    assert sides(found) == (len(kept), len(dropped))
    assert {row["text"]: row["reason"] for row in dropped}[""] == "nothing to score"
    assert all(row["bits_per_byte"] >= 1.5 and row["reason"] == f"not {RULE}" for row in dropped if row["text"])


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("a.txt", "a.txt.jsonl"),
        ("a.b.txt.gz", "a.b.txt.jsonl.gz"),
        (f"{'a' * 248}.v2", f"{'a' * 40}-[0-9a-f]{{16}}.jsonl"),
        (f"{'文' * 82}.txt.gz", f"{'文' * 40}-[0-9a-f]{{16}}.jsonl.gz"),
    ],
)
def test_the_files_of_any_name_have_outputs(tmp_path: Path, name: str, dropped: str) -> None:
    folder, file = OutputFolder(tmp_path / "out", tmp_path), InputFile(tmp_path / name, "text")
    assert folder.target(file) == tmp_path / "out" / name
    found = folder.target(file, as_json=True)
    assert re.fullmatch(dropped, found.name)
    found.parent.mkdir()
    found.touch()


def lines_in(path: Path) -> list[str]:
    data = path.read_bytes()
    if path.suffix in UNPACKED:
        data = UNPACKED[path.suffix](data)
    return data.decode().splitlines()


def test_paragraphs_keep_the_blank_lines_between_them(filtered: Filter, tmp_path: Path) -> None:
    paragraph = "\n".join(LINES[:3]) + "\n\n\n"
    (tmp_path / "a.txt").write_text(paragraph * 3)
    assert sides(filtered(tmp_path / "a.txt", document="paragraph", keep="tokens > 0")) == (3, 0)
    assert (tmp_path / "kept" / "a.txt").read_text() == paragraph * 3


def test_an_output_can_be_filtered_again(filtered: Filter, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of()))
    filtered(tmp_path / "a.jsonl", keep="tokens > 0")
    once = (tmp_path / "kept" / "a.jsonl").read_text()
    filtered(tmp_path / "kept" / "a.jsonl", keep="tokens > 0", output=str(tmp_path / "again"))
    assert (tmp_path / "again" / "a.jsonl").read_text() == once


SENTENCE, OTHER = LINES[0], LINES[7]
JSON_ROWS = [
    f'{{"id": 1.10, "text": "{SENTENCE}", "meta": {{"reason": "x", "big": 1e400, "n": {"7" * 5_000}}}}}',
    f'  {{"text": "{OTHER}", "tags": ["a"], "tags": ["b"]}}  ',
    f'{{"text": "{SENTENCE} \\ud83d", "reason": "mine"}}',
]
ODD_FILES = {  # In each file's content, § marks where a score is added. Everything else must stay unchanged.
    "a.jsonl": "\n\n".join(f"{row.rstrip()[:-1]}, §}}{'  ' * row.endswith(' ')}" for row in JSON_ROWS).encode(),
    "dos.jsonl": f'{{"text": "{SENTENCE}", §}}\r\n\u00a0\r\n{{"text": "{OTHER}", §}}\r\n'.encode(),
    "wide.jsonl": f'\ufeff{{"text": "{SENTENCE}", §}}\r\n{{"text": "Grüße", §}}\r\n'.encode("utf-16-le"),
    "excel.csv": f"\ufeffid,text,lang,§\r\n1,Grüße,de,§\r\n2,{SENTENCE},,§\r\n\r\n3,x,en,§,more\r\n".encode(),
    "cells.csv": f'id,"text",note,§\r\n1,"{SENTENCE}","a ""b""\r\nc",§\r\n"2",{OTHER},"x",§'.encode(),
    "spark.csv": f'text,note,§\n"say \\"{SENTENCE}\\"","a, \\\\",§\n"{OTHER}, x",b,§\n'.encode(),
    "single.tsv": f'text\tnote\t§\n{SENTENCE}\t"No, she said.\t§\n{OTHER}\tGo home"\t§\n'.encode(),
    "wide.tsv": f"\ufeffid\ttext\t§\r\n1\tGrüße\t§\r\n2\t{SENTENCE}\t§\r\n".encode("utf-16-be"),
    "latin.csv": f"text;ville;§\n{SENTENCE};Orléans;§\n{OTHER};Genève;§\n".encode("cp1252"),
    "sep.csv": f"sep=;\r\ntext;note;§\r\n{SENTENCE};x;§\r\n".encode(),
    "dos.txt": f"{SENTENCE}\r\n{OTHER}\r{SENTENCE}".encode(),
    "latin.txt": f"Orléans et Genève\n{OTHER}\n".encode("cp1252"),
    "wide.txt": f"\ufeff{SENTENCE}\r\n{OTHER}\n".encode("utf-16-le"),
    "bad.txt": f"Zürich\n{SENTENCE} \udcff\n{OTHER}\0\n".encode("utf-8", "surrogateescape"),
}
SCORED = re.compile(r'"bits_per_byte": (?:null|[\d.]+(?:e-\d+)?)|(?<=[,;\t])(?:bits_per_byte|\d+\.\d+)')


@pytest.mark.long
@pytest.mark.parametrize("name", ODD_FILES)
def test_a_kept_file_differs_from_its_input_by_scores_alone(filtered: Filter, tmp_path: Path, name: str) -> None:
    wide = {"wide.jsonl": "utf-16-le", "wide.txt": "utf-16-le", "wide.tsv": "utf-16-be"}
    encoding = wide.get(name, "cp1252" if name.startswith("latin") else "utf-8")
    expected = ODD_FILES[name].decode(encoding, "surrogateescape")
    given = re.sub("[,;\t] ?§", "", expected)
    (tmp_path / name).write_bytes(given.encode(encoding, "surrogateescape"))
    filtered(tmp_path / name, keep="tokens > 0")
    kept = (tmp_path / "kept" / name).read_bytes().decode(encoding, "surrogateescape")
    assert SCORED.sub("§", kept) == expected
    filtered(tmp_path / "kept" / name, keep="tokens > 0", output=str(tmp_path / "again"))
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "kept" / name).read_bytes()


@pytest.mark.parametrize(("name", "dialect"), [("a.csv", "excel"), ("a.tsv", "excel-tab")])
def test_csv_keeps_its_columns_in_order(filtered: Filter, tmp_path: Path, name: str, dialect: str) -> None:
    cells = [[str(n), line, 'quoted "\n, and\ttab'] for n, line in enumerate(LINES)]
    with (tmp_path / name).open("w", newline="") as stream:
        csv.writer(stream, dialect=dialect).writerows([["n", "text", "note"], *cells])
    filtered(tmp_path / name)
    with (tmp_path / "kept" / name).open(newline="") as stream:
        heads, *kept = csv.reader(stream, dialect=dialect)
    with (tmp_path / "dropped" / name).open(newline="") as stream:
        dropped_heads, *dropped = csv.reader(stream, dialect=dialect)
    assert (heads, dropped_heads) == (
        ["n", "text", "note", "bits_per_byte"],
        ["n", "text", "note", "bits_per_byte", "reason"],
    )
    assert min(len(kept), len(dropped)) > 0
    assert sorted(row[:3] for row in [*kept, *dropped]) == sorted(cells)


def test_parquet_keeps_schema_metadata_and_row_groups(filtered: Filter, tmp_path: Path) -> None:
    schema = pa.schema(
        [("n", pa.float32()), ("text", pa.large_string()), ("tags", pa.struct([("a", pa.list_(pa.int8()))]))],
        {b"owner": b"me"},
    )
    rows = pa.Table.from_pylist(rows_of(), schema)
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=4, compression="gzip")
    filtered(tmp_path / "a.parquet")
    kept, dropped = (pq.read_table(tmp_path / side / "a.parquet") for side in ("kept", "dropped"))
    assert kept.schema.names == ["n", "text", "tags", "bits_per_byte"]
    assert kept.schema.metadata[b"owner"] == b"me"
    assert min(kept.num_rows, dropped.num_rows) > 0
    together = pa.concat_tables([kept.select(schema.names), dropped.select(schema.names)]).to_pylist()
    assert sorted(together, key=lambda row: row["n"]) == sorted(rows.to_pylist(), key=lambda row: row["n"])
    file = pq.ParquetFile(tmp_path / "kept" / "a.parquet")
    assert (file.num_row_groups, file.metadata.row_group(0).column(0).compression) == (3, "GZIP")


def test_a_share_keeps_the_documents_with_the_fewest_bits(filtered: Filter, texts: Path) -> None:
    found = filtered(texts, keep_share=0.5)
    # Half of the nine scored documents, rounded up to five, are kept. The blank line is dropped with the other four.
    assert sides(found) == (5, 5)
    bits = [row["bits_per_byte"] for row in found.kept_examples]
    assert max(bits) < min(row["bits_per_byte"] for row in found.dropped_examples)


def test_quantiles_are_those_of_the_validation_text(
    filtered: Filter, home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, texts: Path
) -> None:
    path, _ = keep_references(home, toy_dataset, toy_run)
    bits = sorted(pq.read_table(path, columns=["bits_per_byte"])["bits_per_byte"].to_pylist())
    found = filtered(texts, keep_quantiles=(0.0, 1.0))
    low, high = (float(word) for word in found.rules[0].split() if word[0].isdigit())
    assert bits[0] - 1e-4 <= low <= bits[0]
    assert bits[-1] <= high <= bits[-1] + 1e-4
    scores = pq.read_table(found.scoring.output, columns=["bits_per_byte"])["bits_per_byte"].to_pylist()
    inside = sum(value is not None and low <= value <= high for value in scores)
    assert sides(found) == (inside, len(LINES) - inside)
    assert 0 < inside < len(LINES) - 1


def test_nothing_that_was_not_read_is_written_as_kept(filtered: Filter, tmp_path: Path) -> None:
    others = {"a.zip": zip_of({"a.txt": b"one\n"}), "page.html": b"<p>one</p>", "noise": bytes(range(1, 256)) * 20}
    for name, data in ({"a.txt": f"{LINES[0]}\n".encode()} | others).items():
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    for source in (f"{tmp_path}/in", f"{tmp_path}/in/*"):
        found = filtered(source, keep="tokens > 0")
        assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.txt"]
        assert [path.name for path in (tmp_path / "dropped").iterdir()] == ["a.txt.jsonl"]
        assert {Path(one.name).name for one in found.scoring.left_out if not one.read} == set(others)
        page = filter_page(FilterConfig(input=source, output="kept", keep="tokens > 0"), found).text()
        assert "is an archive" in page


def test_an_input_that_changed_after_its_scoring_is_refused(home: Home, toy_run: RunRecord, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    config = FilterConfig(
        input=str(path), output=str(tmp_path / "kept"), keep=RULE, model=str(toy_run.model_folder), device="cpu"
    )
    scoring = score_texts(home, scoring_of(config))
    for lines in (LINES[:-1], [*LINES, "the dog ."]):
        path.write_text("".join(f"{line}\n" for line in lines))
        with pytest.raises(CorpusError, match="changed since it was scored"):
            filter_texts(home, config, scoring)
    assert not (tmp_path / "kept" / "a.txt").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give keep, keep_quantiles or keep_share"),
        ({"keep_quantiles": (0.9, 0.1)}, "the lower one first"),
        ({"keep": "perplexity <"}, "expected a condition on document, source"),
        ({"keep": "unheard_of < 3"}, "unheard_of"),
        ({"keep": RULE, "output": "."}, "contains the input"),
        ({"keep": RULE, "output": "texts.txt"}, "expected a folder"),
        ({"keep": RULE, "input": "list.json"}, "one object per line"),
        ({"keep": RULE, "input": "indented.json"}, "one object per line"),
    ],
)
def test_a_wrong_filter_is_refused_before_anything_is_scored(
    texts: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(texts.parent)
    Path("list.json").write_text('\n[{"text": "one"}]')
    Path("indented.json").write_text('{\n  "text": "one"\n}\n')
    with pytest.raises((ConfigError, ValueError), match=message):
        check_filter(FilterConfig.model_validate({"input": str(texts), "output": "kept", **fields}))


def test_an_empty_inbox_needs_no_model(filtered: Filter, tmp_path: Path) -> None:
    """No model is needed if there are no files to filter.

    In a new rnnlm home, a scheduled filter may run before there are files.
    """
    for model in (None, "models:/rnnlm-missing@champion"):
        found = filtered(tmp_path / "inbox", keep=RULE, may_be_missing=True, model=model)
        assert found.output is None
    assert not find_inputs(
        FilterConfig(input=str(tmp_path / "inbox"), output="x", keep=RULE, may_be_missing=True)
    ).files


def test_a_large_csv_cell_is_copied_when_the_scores_exist(
    filtered: Filter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text(f"text,note\n{LINES[0]},{'x' * 200_000}\n")
    filtered(tmp_path / "a.csv", keep="tokens > 0")
    # The stored scores are reused, so no document is read.
    monkeypatch.setattr("rnnlm.extensions.scoring.bulk_scoring.read_documents", pytest.fail)
    csv.field_size_limit(131_072)  # This is the default limit for the size of a cell in a new process.
    filtered(tmp_path / "a.csv", keep="tokens > 1")
    assert len((tmp_path / "kept" / "a.csv").read_text()) > 200_000
