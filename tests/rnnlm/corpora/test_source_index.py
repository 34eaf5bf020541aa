"""Each file, archive member and table row is a source.

No document spans two sources, and a source has a single split.
"""

from collections import defaultdict
from pathlib import Path

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.splits import CorpusDocument, corpus_documents
from rnnlm.storage.home import Home
from tests.rnnlm.corpora.packed_files import csv_of, json_of, parquet_of, tar_of, zip_of

REVIEWS = ["".join(f"line {line} of review {review}\n" for line in range(5 + review % 60)) for review in range(150)]
SETTINGS = {"valid_share": 0.2, "test_share": 0.2}
PACKED = {
    "reviews.zip": zip_of({f"{number:03}.txt": text.encode() for number, text in enumerate(REVIEWS)}),
    "reviews.tar": tar_of({f"{number:03}.txt": text.encode() for number, text in enumerate(REVIEWS)}),
    "reviews.csv": csv_of(REVIEWS),
    "reviews.jsonl": json_of(REVIEWS),
    "reviews.parquet": parquet_of(list(REVIEWS)),
}


def documents_of(home: Home, path: Path, **settings: object) -> list[CorpusDocument]:
    config = CorpusConfig.model_validate({"source": str(path)} | SETTINGS | settings)
    return list(corpus_documents(obtain_corpus(home, config)))


def test_many_sources_of_any_packing_are_split_whole(home: Home, tmp_path: Path) -> None:
    found = {}
    for name, data in PACKED.items():
        (tmp_path / name).write_bytes(data)
        found[name] = documents_of(home, tmp_path / name)
    (tmp_path / "folder").mkdir()
    for number, text in enumerate(REVIEWS):
        (tmp_path / "folder" / f"{number:03}.txt").write_text(text)
    found["folder"] = documents_of(home, tmp_path / "folder")
    for name, some in found.items():
        assert some == found["folder"], name
    splits: defaultdict[int, set[str]] = defaultdict(set)
    texts: defaultdict[int, str] = defaultdict(str)
    for document in found["folder"]:
        splits[document.source_number].add(document.split)
        texts[document.source_number] += document.data.decode()
    assert [texts[number] for number in range(len(REVIEWS))] == REVIEWS
    assert all(len(some) == 1 for some in splits.values())
    assert {split for some in splits.values() for split in some} == {"train", "valid", "test"}


def test_a_corpus_that_grows_keeps_every_source_in_its_split(home: Home, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_of(REVIEWS))
    before = {document.sha256: document.split for document in documents_of(home, tmp_path / "a.jsonl")}
    (tmp_path / "a.jsonl").write_bytes(json_of(["a new one\n", *REVIEWS, "another\n"]))
    after = {document.sha256: document.split for document in documents_of(home, tmp_path / "a.jsonl")}
    assert before.items() <= after.items()
