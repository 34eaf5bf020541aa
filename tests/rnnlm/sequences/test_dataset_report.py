"""The values in a dataset's description agree with a count by hand."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.reports.dataset_page import description_page
from rnnlm.sequences import dataset_reader
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_reader import connect
from rnnlm.sequences.dataset_report import Description, describe_dataset, measure_dataset
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tests.conftest import home_in
from tests.rnnlm.corpora.packed_files import zip_of

TRAIN = "a b a b a b\n\na c\na c\nd\n"
VALID = "a c\nzz a zz\n"
TEST = "b b\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Yield an rnnlm home for all tests of this file.

    The tests can share this home, because the names of its stored folders depend on their content.
    """
    with home_in(tmp_path_factory.mktemp("described")) as home:
        yield home


@pytest.fixture(scope="module")
def described(home: Home, tmp_path_factory: pytest.TempPathFactory) -> DatasetRecord:
    return store(home, tmp_path_factory.mktemp("texts"), mode="sentence", context_length=4)


def store(home: Home, tmp_path: Path, **settings: object) -> DatasetRecord:
    for split, text in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        (tmp_path / "corpus").mkdir(exist_ok=True)
        (tmp_path / "corpus" / f"{split}.txt").write_text(text)
    source = CorpusConfig(source=str(tmp_path / "corpus"))
    corpus = obtain_corpus(home, source)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    return store_sequences(home, corpus, tokenizer, SequencesConfig.model_validate(settings))


def describe(home: Home, dataset: DatasetRecord) -> Description:
    return describe_dataset(home, dataset)[0]


@pytest.mark.long
def test_sizes_of_the_splits(home: Home, described: DatasetRecord) -> None:
    train, valid, test = describe(home, described).splits
    # The training rows are a b a b | a b <eos>, twice a c <eos>, and d <eos>. These are 5 rows with 7 + 3 + 3 + 2
    # tokens.
    assert (train["line_count"], train["sequence_count"], train["predicted_tokens"]) == (5, 5, 15)
    assert (train["byte_count"], train["document_count"]) == (len(TRAIN), 2)
    assert train["mean_length"] == 3
    assert (valid["predicted_tokens"], valid["unknown_rate"]) == (7, pytest.approx(2 / 7))
    assert (test["split"], test["longest_row"]) == ("test", 3)


def test_lengths_tokens_and_coverage(home: Home, described: DatasetRecord) -> None:
    description = describe(home, described)
    assert [(row["first_length"], row["sequence_count"]) for row in description.lengths] == [(2, 1), (3, 3), (4, 1)]
    # The tokens have the counts a 5, <eos> 4, b 3, c 2, d 1.
    assert [row["token"] for row in description.frequent_tokens[:2]] == ["a", "<eos>"]
    assert [(row["token"], row["training_count"]) for row in description.rarest_tokens[:2]] == [("d", 1), ("c", 2)]
    assert [(row["vocabulary"], row["share"]) for row in description.coverage] == [
        (1, pytest.approx(5 / 15)),
        (2, pytest.approx(9 / 15)),
        (4, pytest.approx(14 / 15)),
        (5, 1.0),
    ]


def test_repeated_rows_and_leaked_ones(home: Home, described: DatasetRecord) -> None:
    description = describe(home, described)
    assert [(row["split"], row["repeated_sequences"]) for row in description.duplicates] == [
        ("train", 1),
        ("valid", 0),
        ("test", 0),
    ]
    leaks = {row["split"]: row for row in description.leaks}
    # One row of the validation split, a c <eos>, also occurs in training. It has 3 of 7 tokens.
    assert (leaks["valid"]["leaked_units"], leaks["valid"]["leaked_share"]) == (1, pytest.approx(3 / 7))
    assert (leaks["test"]["leaked_units"], leaks["test"]["leaked_share"]) == (0, 0)


@pytest.mark.long
def test_the_longest_sentences_of_many_rows_need_little_memory(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "many").mkdir()
    for split, text in (("train", "a b\n" * 300_000 + "a b a b\n"), ("valid", VALID), ("test", TEST)):
        (tmp_path / "many" / f"{split}.txt").write_text(text)
    corpus = obtain_corpus(home, CorpusConfig(source=str(tmp_path / "many")))
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    dataset = store_sequences(home, corpus, tokenizer, SequencesConfig(mode="sentence"))
    # If a query needed 3 bytes for each row, it would exceed this limit.
    monkeypatch.setattr(dataset_reader, "MEMORY_LIMIT", "16MiB")
    with connect(dataset) as connection:
        [longest] = table(connection, "descriptions/longest_sentences", {"count": 1})
    assert (longest["predicted_tokens"], longest["opening"]) == (5, "a b a b <eos>")


def describe_texts(home: Home, path: Path) -> tuple[Description, DatasetRecord]:
    source = CorpusConfig(source=str(path), valid_share=0.2, test_share=0.2)
    corpus = obtain_corpus(home, source)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    dataset = store_sequences(home, corpus, tokenizer, SequencesConfig())
    check_dataset(dataset)
    return describe(home, dataset), dataset


@pytest.mark.long
def test_no_held_out_document_of_many_sources_has_its_source_in_training(home: Home, tmp_path: Path) -> None:
    members = {f"{number}.txt": (f"a review\nnumber {number}\n" * 40).encode() for number in range(150)}
    (tmp_path / "reviews.zip").write_bytes(zip_of(members))
    description, _ = describe_texts(home, tmp_path / "reviews.zip")
    assert [row["split"] for row in description.sources] == ["test", "valid"]
    assert all(row["shared_documents"] == 0 < row["document_count"] for row in description.sources)
    assert "0 (0.0%)" in description_page(description, []).text()
    assert "Ġ" not in description_page(description, []).text()
    spaced = [{"token": "Ġthe", "training_count": 1, "share": 0.1}]
    of_bytes = description.model_copy(update={"frequent_tokens": spaced})
    assert "Ġ is a space" in description_page(of_bytes, []).text()
    assert "Ġ is a space" in description_page(of_bytes, []).markdown()


@pytest.mark.slow
def test_a_book_s_held_out_documents_all_have_their_source_in_training(home: Home, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("".join(f"paragraph {number}\n\n" for number in range(300)))
    description, dataset = describe_texts(home, tmp_path / "book.txt")
    assert all(row["shared_documents"] == row["document_count"] > 0 for row in description.sources)
    # The table is replaced by the table of an earlier version, which did not store sources.
    with duckdb.connect(str(dataset.database)) as connection:
        connection.execute("alter table documents drop column source_number")
    assert measure_dataset(dataset).sources == []
