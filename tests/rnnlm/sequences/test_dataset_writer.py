"""The contents of a dataset file agree with a count by hand."""

import hashlib
from pathlib import Path

import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.evaluation.baselines import baselines, split_facts
from rnnlm.sequences import corpus_shards, dataset_writer, table_writer
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_reader import StoredSplit, connect, training_counts
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.sequences.segmentation import rows_from_lists
from rnnlm.sequences.unigram import unigram_log_probabilities
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.stages import STAGE_VERSIONS
from rnnlm.tokenizers.text_tokenizer import PLAIN_END_BITS, PLAIN_GAP_BITS
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

# The ids are <pad> 0, <unk> 1, <bos> 2, <eos> 3, a 4 (4 times), b 5 (twice), c 6 (once).
TRAIN = "a b a b a\n\na c\n"
VALID = "a a\n"
TEST = "b zz a\n"


def store(home: Home, folder: Path, train: str = TRAIN, valid: str = VALID, **settings: object) -> DatasetRecord:
    folder.mkdir(exist_ok=True)
    for split, text in (("train", train), ("valid", valid), ("test", TEST)):
        (folder / f"{split}.txt").write_text(text)
    source = CorpusConfig(source=str(folder))
    corpus = obtain_corpus(home, source)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    return store_sequences(home, corpus, tokenizer, SequencesConfig.model_validate(settings))


def rows(dataset: DatasetRecord, column: str, split: str = "train") -> list[list[int]]:
    query = f"select {column} from shifted_sequences where split = $split order by sequence_id"
    with connect(dataset) as connection:
        return [row[0] for row in connection.execute(query, {"split": split}).fetchall()]


@pytest.mark.long
def test_sentences_are_rows_and_blank_lines_are_none(home: Home, tmp_path: Path) -> None:
    dataset = store(home, tmp_path / "c")
    assert rows(dataset, "token_ids") == [[2, 4, 5, 4, 5, 4, 3], [2, 4, 6, 3]]
    assert rows(dataset, "input_ids") == [[2, 4, 5, 4, 5, 4], [2, 4, 6]]
    assert rows(dataset, "target_ids") == [[4, 5, 4, 5, 4, 3], [4, 6, 3]]
    assert dataset.predicted_tokens == {"train": 9, "valid": 3, "test": 4}


def test_a_long_sentence_becomes_rows_that_overlap_by_one(home: Home, tmp_path: Path) -> None:
    dataset = store(home, tmp_path / "c", context_length=4)
    assert rows(dataset, "token_ids") == [[2, 4, 5, 4, 5], [5, 4, 3], [2, 4, 6, 3]]
    assert dataset.predicted_tokens["train"] == 9


@pytest.mark.long
def test_blocks_of_a_stream_overlap_by_one(home: Home, tmp_path: Path) -> None:
    dataset = store(home, tmp_path / "c", mode="stream", block_length=4)
    # The stored rows are <bos> a b a b | b a <eos> <eos>(blank line) a | a c <eos>.
    assert rows(dataset, "token_ids") == [[2, 4, 5, 4, 5], [5, 4, 3, 3, 4], [4, 6, 3]]
    assert dataset.predicted_tokens == {"train": 10, "valid": 3, "test": 4}


@pytest.mark.long
def test_a_dataset_that_breaks_a_check_is_not_marked_complete(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(table_writer.StreamCutter, "finish", lambda cutter: rows_from_lists([]))
        with pytest.raises(DatasetError, match="every_token_is_predicted_once"):
            store(home, tmp_path / "c", mode="stream", block_length=2)
    assert list(home.datasets.glob("[!.]*")) == []
    assert not store(home, tmp_path / "c", mode="stream", block_length=2).skipped


@pytest.mark.long
def test_sizes_and_unknown_words_of_a_split(home: Home, tmp_path: Path) -> None:
    facts = split_facts(store(home, tmp_path / "c"), "test")
    # The bits are for spelling zz and its end, for the 2 gaps between three words, and for the 2 ends of the line.
    bits = 8 * 3 + 2 * PLAIN_GAP_BITS + 2 * PLAIN_END_BITS
    assert (facts.byte_count, facts.predicted_tokens, facts.unknown_tokens) == (7, 4, 1)
    assert facts.restoration_bits == pytest.approx(bits)


def test_baselines_by_hand(home: Home, tmp_path: Path) -> None:
    """The uniform and unigram baselines agree with a calculation by hand.

    The training targets are a 4, b 2, c 1 and <eos> 2. <unk> never occurs but counts as 1. The total is 10.
    """
    dataset = store(home, tmp_path / "c")
    assert list(training_counts(dataset)) == [0, 0, 0, 2, 4, 2, 1]
    measured = baselines(dataset, "test")  # The test tokens are b, <unk>, a and <eos>.
    assert measured.uniform_perplexity == 5  # The 5 predictable tokens are <unk>, <eos>, a, b and c.
    assert measured.unigram_perplexity == pytest.approx((0.2 * 0.1 * 0.4 * 0.2) ** (-1 / 4))
    logarithms = unigram_log_probabilities(dataset)
    assert logarithms[[3, 4, 1]] == pytest.approx([-1.6094379, -0.9162907, -2.3025851])


def test_a_split_without_a_predicted_token_is_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"the valid split has no token"):
        store(home, tmp_path / "c", valid="\n  \n")
    assert list(home.datasets.iterdir()) == []
    assert list(home.shards.iterdir()) == []


@pytest.mark.long
def test_the_same_dataset_is_stored_once_and_a_damaged_one_again(home: Home, tmp_path: Path) -> None:
    first = store(home, tmp_path / "c")
    assert store(home, tmp_path / "c").skipped
    with first.database.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"damage")
    assert not store(home, tmp_path / "c").skipped
    assert check_dataset(first)


@pytest.mark.long
def test_many_documents_in_small_batches_give_the_same_rows(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = "".join(f"a b c\n{'a ' * (index % 7)}\n\n" for index in range(40))
    whole = store(home, tmp_path / "c", train, mode="stream", block_length=10)
    before = rows(whole, "token_ids")
    monkeypatch.setattr(corpus_shards, "SHARD_BYTES", 40)
    monkeypatch.setattr(table_writer, "TOKENS_AT_ONCE", 30)
    # With another stage version, the dataset is stored in another folder.
    monkeypatch.setitem(STAGE_VERSIONS, "sequences", -1)
    again = store(home, tmp_path / "c", train, mode="stream", block_length=10)
    assert again.dataset_id != whole.dataset_id
    assert rows(again, "token_ids") == before


@pytest.mark.slow
def test_a_vocabulary_of_more_than_two_bytes_is_stored_in_four(home: Home, tmp_path: Path) -> None:
    narrow = store(home, tmp_path / "c")
    with connect(narrow) as connection:
        assert connection.execute("select typeof(token_ids) from shifted_sequences limit 1").fetchall()[0][0] in (
            "USMALLINT[]",
            "token_id[]",
        )
    words = " ".join(f"w{index}" for index in range(66_000))
    (tmp_path / "big").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "big" / f"{split}.txt").write_text(words + "\n")
    source = CorpusConfig(source=str(tmp_path / "big"))
    corpus = obtain_corpus(home, source)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word", vocabulary_size=70_000))
    dataset = store_sequences(home, corpus, tokenizer, SequencesConfig(context_length=50_000))
    assert max(max(row) for row in rows(dataset, "token_ids")) == 66_003
    check_dataset(dataset)


@pytest.mark.long
def test_golden_output_changes_only_with_the_stage_version(home: Home, tmp_path: Path) -> None:
    """The stored output of the stage has not changed.

    If this test fails because of an intended change, increase the stage's version and change the digest here.
    """
    digest = hashlib.sha256()
    for mode in ("sentence", "stream"):
        dataset = store(home, tmp_path / "c", mode=mode, context_length=4, block_length=4)
        for split in ("train", "valid", "test"):
            digest.update(repr(rows(dataset, "token_ids", split)).encode())
    assert (STAGE_VERSIONS["sequences"], digest.hexdigest()[:16]) == (4, "ddb76940b1b0ce4a")


def test_a_missing_file_is_reported_with_advice(toy_dataset: DatasetRecord) -> None:
    toy_dataset.database.unlink()
    with pytest.raises(DatasetError, match="--force sequences"):
        StoredSplit(toy_dataset, "train").read(0, 1)


def test_too_little_memory_names_the_setting(tmp_path: Path) -> None:
    config = SequencesConfig(memory_mebibytes=16)
    with pytest.raises(DatasetError, match=r"sequences\.memory_mebibytes=16 is too little memory"):  # noqa: SIM117
        with (
            dataset_writer.new_database(tmp_path, config) as connection,
            dataset_writer.memory_shortage_explained(config),
        ):
            connection.execute("set max_temp_directory_size = '0KiB'")
            connection.execute("create table large as select i, repeat('x', 500) || i as x from range(200000) t(i)")
            connection.execute("select count(*) from (select distinct x from large)")
