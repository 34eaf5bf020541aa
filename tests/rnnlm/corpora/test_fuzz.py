"""A file of any bytes gives a corpus or a CorpusError, never another exception, and leaves no temporary files."""

import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord
from tests.rnnlm.corpora.packed_files import COMPRESSIONS, csv_of, json_of, parquet_of, tar_of, zip_of

TEXTS = ["the cat sees the dog .", 'a "quoted"\nline', "", "Zürich ½ \u0301"]
PLAIN = {
    "a.txt": "\n".join(TEXTS).encode(),
    "a.csv": csv_of(TEXTS),
    "a.tsv": csv_of(TEXTS, "\t"),
    "a.jsonl": json_of(TEXTS),
    "a.parquet": parquet_of(list(TEXTS)),
}
MEMBERS = {"train.txt": PLAIN["a.txt"], "in/test.csv": PLAIN["a.csv"], "b.txt.gz": COMPRESSIONS[".gz"](b"zip\n")}
ARCHIVES = {
    "a.tar": tar_of(MEMBERS),
    "b.tar": tar_of({"a.parquet": PLAIN["a.parquet"], "b.txt": b"b\n"}),
    "a.zip": zip_of(MEMBERS),
    "b.zip": zip_of(MEMBERS, zipfile.ZIP_BZIP2),
    "c.zip": zip_of(MEMBERS, zipfile.ZIP_LZMA),
}
SEEDS = {
    name + suffix: pack(data) for name, data in (PLAIN | ARCHIVES).items() for suffix, pack in COMPRESSIONS.items()
}

mutation = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1), st.integers(0, 255)),
    st.tuples(st.just("cut"), st.floats(0, 1), st.just(0)),
    st.tuples(st.just("drop"), st.floats(0, 1), st.integers(1, 200)),
    st.tuples(st.just("double"), st.floats(0, 1), st.integers(1, 600)),
    st.tuples(st.just("zero"), st.floats(0, 1), st.integers(1, 600)),
)
names = st.sampled_from(sorted(SEEDS))
settings_drawn = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["text", "csv", "tsv", "jsonl", "parquet"]),
        "encoding": st.sampled_from(["latin-1", "utf-16", "utf-7", "shift_jis"]),
        "undecodable": st.just("replace"),
        "normalization": st.sampled_from(["NFC", "NFKD"]),
        "lowercase": st.just(True),
        "digits": st.just("#"),
    },
)


def mutated(data: bytes, mutations: list[tuple[str, float, int]], other: bytes, splice: float | None) -> bytes:
    for kind, where, amount in mutations:
        place = int(where * len(data))
        piece = data[place : place + amount]
        if kind == "flip":
            data = data[:place] + bytes([amount]) + data[place + 1 :]
        elif kind == "cut":
            data = data[:place]
        elif kind == "drop":
            data = data[:place] + data[place + amount :]
        elif kind == "double":
            data = data[:place] + piece + data[place:]
        else:
            data = data[:place] + bytes(len(piece)) + data[place + amount :]
    if splice is not None:
        data = data[: int(splice * len(data))] + other[int(splice * len(other)) :]
    return data


def obtain_or_refuse(name: str, data: bytes, drawn: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home, path = Home(Path(scratch) / "home"), Path(scratch) / name
        path.write_bytes(data)
        try:
            corpus = obtain_corpus(home, CorpusConfig.model_validate({"source": str(path), **drawn}))
        except CorpusError as error:
            assert len(str(error).splitlines()) <= 3
            assert [file for file in home.corpora.rglob("*") if file.is_file()] == []
        else:
            assert isinstance(corpus, CorpusRecord)
            for file_name in corpus.files.values():
                (corpus.folder / file_name).read_bytes().decode("utf-8")
        assert not list(home.corpora.glob(".*"))
        assert {entry.name for entry in Path(scratch).iterdir()} == {name, "home"}


DRAWN = given(
    name=names,
    other=names,
    called=st.none() | names,
    mutations=st.lists(mutation, max_size=4),
    splice=st.none() | st.floats(0, 1),
    drawn=settings_drawn,
)
LIMITS = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def check(name: str, other: str, called: str | None, mutations: list, splice: float | None, drawn: dict) -> None:
    obtain_or_refuse(called or name, mutated(SEEDS[name], mutations, SEEDS[other], splice), drawn)


@pytest.mark.long
@settings(LIMITS, max_examples=60)
@DRAWN
def test_60_damaged_files_give_a_corpus_or_a_corpus_error(**example) -> None:  # type: ignore[no-untyped-def]
    check(**example)


@pytest.mark.slow
@settings(LIMITS, max_examples=2000)
@DRAWN
def test_2000_damaged_files_give_a_corpus_or_a_corpus_error(**example) -> None:  # type: ignore[no-untyped-def]
    check(**example)
