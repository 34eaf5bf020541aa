"""A small text of at least three lines is split by line, so that no split is empty."""

import logging
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnlm.config import CorpusConfig, PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.small_corpora import enlarged_shares
from rnnlm.corpora.splits import carve, corpus_documents
from rnnlm.errors import CorpusError
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, Split
from tests.rnnlm.corpora.test_file_formats import write


def obtain(home: Home, path: Path, text: str, **corpus: object) -> CorpusRecord:
    write(path, text.encode())
    return obtain_corpus(home, CorpusConfig.model_validate({"source": str(path)} | corpus))


def prepare(home: Home, path: Path, text: str, **corpus: object) -> DatasetRecord:
    write(path, text.encode())
    return prepare_dataset(home, PipelineConfig.model_validate({"corpus": {"source": str(path)} | corpus}))


def lines(count: int) -> str:
    return "".join(f"line {number} says {number * number}\n" for number in range(count))


@pytest.mark.long
@pytest.mark.parametrize("count", [3, 4, 10, 30, 60, 200])
def test_few_lines_fill_three_splits(home: Home, tmp_path: Path, count: int) -> None:
    corpus = obtain(home, tmp_path / "a.txt", lines(count))
    found = Counter(document.split for document in corpus_documents(corpus))
    assert set(found) == {"train", "valid", "test"}
    # If there are fewer than 100 lines, each line is a document.
    assert (sum(found.values()) == count) == (count < 100)
    in_split = Counter(document.split for document in corpus_documents(corpus) for _ in document.lines)
    assert in_split["train"] > count * 0.6 or count < 10
    # Half of these validation lines are enough to compare models.
    assert count * 0.15 <= in_split["valid"] <= count * 0.35
    assert set(prepare(home, tmp_path / "a.txt", lines(count)).predicted_tokens) == {"train", "valid", "test"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "one line\n",
            r"this text has only 1 document; at least 3 different ones are needed for 3 splits;\n.*on a separate line",
        ),
        ("one line\nanother\n", "this text has only 2 different documents; at least 3"),
        ("the same\n" * 5_000, "this text has only 1 document, repeated in 5,000 lines; at least 3"),
        ("word another " * 400_000, r"this text has only (1 document|2 different documents), repeated in \d+ lines"),
    ],
)
@pytest.mark.long
def test_the_error_for_too_few_documents_counts_them(home: Home, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        prepare(home, tmp_path / "a.txt", text)
    assert len(str(caught.value).splitlines()) <= 3
    assert "share" not in str(caught.value)


def test_a_share_of_zero_stays_zero_and_the_message_names_it(home: Home, tmp_path: Path) -> None:
    corpus = obtain(home, tmp_path / "a.txt", lines(30), valid_share=0.0)
    assert {document.split for document in corpus_documents(corpus)} == {"train", "test"}
    with pytest.raises(CorpusError, match=r"valid split has no token.*\n.*raise corpus\.valid_share"):
        prepare(home, tmp_path / "a.txt", lines(30), valid_share=0.0)


@pytest.mark.long
@given(
    st.lists(st.integers(0, 2**32).map(lambda n: n / 2**33), min_size=3, max_size=12, unique=True).map(sorted),
    st.floats(0.0001, 0.49),
    st.floats(0.0001, 0.49),
)
@settings(max_examples=200, derandomize=True, deadline=None, database=None)
def test_enlarged_shares_leave_no_split_empty(fractions: list[float], valid: float, test: float) -> None:
    shares = enlarged_shares(dict.fromkeys(fractions, 1), {"valid": valid, "test": test})
    keys = [int(fraction * 2**64).to_bytes(8, "big") for fraction in fractions]
    assert {carve(key, shares) for key in keys} == {"train", "valid", "test"}


CHINESE = "".join(
    "".join(chr(0x4E00 + (line * 37 + place * place) % 400) for place in range(12)) + "\n" for line in range(300)
)


@pytest.mark.parametrize(("kind", "warns"), [("word", True), ("char", False), ("bpe", False)])
def test_many_unknown_validation_words_cause_a_warning(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, warns: bool
) -> None:
    write(tmp_path / "a.txt", CHINESE.encode())
    settings = {"corpus": {"source": str(tmp_path / "a.txt")}, "tokenizer": {"kind": kind}}
    with caplog.at_level(logging.WARNING):
        prepare_dataset(home, PipelineConfig.model_validate(settings))
    assert ("unknown to the word tokenizer" in caplog.text) is warns
    assert ("tokenizer.kind=bpe or tokenizer.kind=char" in caplog.text) is warns


def test_a_validation_split_of_too_few_lines_is_enlarged_and_no_other() -> None:
    fractions = [(number + 0.5) / 1_000 for number in range(1_000)]
    usual: dict[Split, float] = {"valid": 0.05, "test": 0.05}
    # The validation split has 5 % of 1,000 documents with 2 lines each, 100 lines in total.
    assert enlarged_shares(dict.fromkeys(fractions, 2), usual) == usual
    assert enlarged_shares(dict.fromkeys(fractions, 1), usual) == {"test": 0.05, "valid": pytest.approx(0.06)}
    assert enlarged_shares(dict.fromkeys(fractions[::10], 1), usual)["valid"] == pytest.approx(
        0.2, abs=0.01
    )  # The validation split gets 20 of 100 lines, which is the largest fraction.
    chosen: dict[Split, float] = {"valid": 0.3, "test": 0.05}
    assert enlarged_shares(dict.fromkeys(fractions[::10], 1), chosen) == chosen


def test_a_growing_small_text_holds_out_what_was_not_trained_on(home: Home, tmp_path: Path) -> None:
    """A document that a growing text holds out was hardly ever used for training before.

    The enlarged fractions of the held-out splits decrease while the text grows, so documents rarely leave the training
    split.
    """
    trained: set[str] = set()
    moved = held_out = 0
    for count in range(200, 1_400, 100):
        corpus = obtain(home, tmp_path / "a.txt", lines(count))
        splits: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
        for document in corpus_documents(corpus):
            splits[document.split] |= set(document.lines)
        moved += len(splits["valid"] & trained)
        held_out += len(splits["valid"])
        trained |= splits["train"]
    assert moved < 0.05 * held_out
