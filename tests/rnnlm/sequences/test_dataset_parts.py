"""A corpus in one DuckDB file and in Parquet parts has the same rows, batches and scores."""

import pickle
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow.parquet as pq
import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.evaluation.perplexity import score_split
from rnnlm.models.model_factory import load_model
from rnnlm.sequences import corpus_shards, part_writer, table_writer
from rnnlm.sequences.dataset_checks import check_dataset
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_reader import StoredSplit, connect, training_counts
from rnnlm.sequences.dataset_report import measure_dataset
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.sequences.segmentation import Mode
from rnnlm.storage.home import Home
from rnnlm.storage.records import SPLITS, CorpusRecord, DatasetRecord, RunRecord, TokenizerRecord
from rnnlm.storage.sql_statements import names
from rnnlm.storage.stage_folders import DatasetFolder
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tests.conftest import home_in
from tests.rnnlm.extensions.scoring.test_document_reader import read

pytestmark = pytest.mark.long  # Creating the datasets of this module takes seconds.
TABLES = {
    "shifted_sequences": "split, sequence_id",
    "documents": "document_id",
    "tokens": "token_id",
    "dataset": "dataset_id",
}


class Forms(NamedTuple):
    home: Home  # This rnnlm home contains the dataset in parts.
    file: DatasetRecord
    parts: DatasetRecord


def sentences(count: int, seed: int) -> str:
    """Return lines of 0 to 12 words, in paragraphs of up to 5 lines."""
    drawn = random.Random(seed)
    lines = [" ".join(drawn.choices("abcdefgh", k=drawn.randint(1, 12))) for _ in range(count)]
    return "".join(f"{line}\n" + ("\n" if drawn.random() < 0.2 else "") for line in lines)


def store(home: Home, text: Path, mode: Mode, **settings: int) -> DatasetRecord:
    corpus = obtain_corpus(home, CorpusConfig(source=str(text)))
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind="word"))
    config = SequencesConfig.model_validate({"mode": mode, "context_length": 8, "block_length": 16, **settings})
    return store_sequences(home, corpus, tokenizer, config)


@pytest.fixture(scope="module", params=["sentence", "stream"])
def forms(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Forms:
    """Return a dataset that is stored both in a single file and in parts.

    The names of its folders contain characters that are special in globs and lists.
    """
    folder = tmp_path_factory.mktemp("a, [1] 'b")
    (folder / "text").mkdir()
    for seed, split in enumerate(SPLITS):
        (folder / "text" / f"{split}.txt").write_text(sentences(300 if split == "train" else 20, seed))
    with home_in(folder) as home, pytest.MonkeyPatch.context() as small:
        small.setattr(corpus_shards, "SHARD_BYTES", 1_000)
        small.setattr(table_writer, "TOKENS_AT_ONCE", 100)
        file = store(home, folder / "text", request.param)
        small.setattr(part_writer, "PART_TOKENS", 500)
        small.setattr(part_writer, "GROUP_TOKENS", 40)
        other = Home(folder / "other")
        parts = store(other, folder / "text", request.param, parts_above_bytes=0)
    return Forms(other, file, parts)


def test_both_forms_have_the_same_name_and_several_parts(forms: Forms) -> None:
    assert forms.file.dataset_id == forms.parts.dataset_id
    assert not forms.file.parts.exists()
    parts = sorted(path.name for path in forms.parts.parts.iterdir())
    assert {"train-000000000000.parquet", "valid-000000000000.parquet", "test-000000000000.parquet"} < set(parts)
    assert len(parts) >= 5
    groups = [pq.read_metadata(path).num_row_groups for path in forms.parts.parts.iterdir()]
    assert max(groups) >= 5


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_equal_by_sql(forms: Forms, table: str) -> None:
    found = []
    for dataset in (forms.file, forms.parts):
        with connect(dataset) as connection:
            rows = connection.execute(f"select * from {table} order by {TABLES[table]}")
            columns = [(column[0], str(column[1])) for column in rows.description or []]
            found.append((columns, rows.fetchall()))
    assert found[0] == found[1]
    assert found[0][1]


def test_every_check_passes_and_descriptions_are_equal(forms: Forms) -> None:
    assert [f"checks/{name}" for name in check_dataset(forms.parts)] == names("checks")
    assert measure_dataset(forms.parts) == measure_dataset(forms.file)


def test_every_range_is_read_equally(forms: Forms) -> None:
    file, parts = (StoredSplit(dataset, "train") for dataset in (forms.file, forms.parts))
    ranges = [(0, len(file)), (0, 1), (len(file) - 1, len(file)), (5, 5)]
    ranges += [(first, min(first + step, len(file))) for step in (1, 7, 60) for first in range(0, len(file), 13)]
    for first, last in ranges:
        expected, found = file.read(first, last), parts.read(first, last)
        assert found.token_ids.tolist() == expected.token_ids.tolist(), (first, last)
        assert found.offsets.tolist() == expected.offsets.tolist(), (first, last)
    again = pickle.loads(pickle.dumps(parts)).read(3, 9)
    assert again.token_ids.tolist() == file.read(3, 9).token_ids.tolist()


def test_a_moved_dataset_is_read_from_any_working_directory(
    forms: Forms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dataset that was moved can be read from any working directory.

    One working directory is the folder of another dataset, whose parts have the same names.
    """
    moved = tmp_path / "moved [2], it's" / forms.parts.dataset_id
    shutil.copytree(forms.parts.folder, moved)
    other = tmp_path / "other"
    shutil.copytree(forms.parts.folder, other)
    for part in (other / "parts").iterdir():
        pq.write_table(pq.read_table(part).slice(0, 0), part)
    monkeypatch.chdir(other)
    dataset = find_dataset(forms.home, str(moved))
    assert dataset is not None
    with connect(dataset) as connection:
        counted = connection.execute("select count(*) from shifted_sequences where split = 'train'").fetchall()
    assert counted == [(dataset.sequence_counts["train"],)]
    assert len(StoredSplit(dataset, "train").read(0, 10)) == 10
    monkeypatch.chdir(moved)
    # docs/reference/home.md describes this way of opening a dataset.
    with duckdb.connect("sequences.duckdb", read_only=True) as connection:
        counted = connection.execute("select count(*) from shifted_sequences where split = 'train'").fetchall()
    assert counted == [(dataset.sequence_counts["train"],)]


def test_a_removed_and_an_altered_part_are_reported(forms: Forms, tmp_path: Path) -> None:
    shutil.copytree(forms.parts.folder, tmp_path / "copy")
    dataset = DatasetFolder(tmp_path / "copy").record()
    parts = sorted(dataset.parts.glob("train-*"))
    parts[-1].write_bytes(parts[-1].read_bytes()[:-9] + b"x" + parts[-1].read_bytes()[-8:])
    with pytest.raises(DatasetError, match=rf"parts/{parts[-1].name} differs from its sha256"):
        find_dataset(forms.home, str(dataset.folder))
    source = StoredSplit(dataset, "train")
    parts[1].unlink()
    with pytest.raises(DatasetError, match=rf"parts/{parts[1].name} is missing"):
        find_dataset(forms.home, str(dataset.folder))
    with pytest.raises(DatasetError, match=rf"{parts[1].name}: missing; run again with --force sequences"):
        source.read(0, len(source))
    with pytest.raises(DatasetError, match=r"train-000000000000\.parquet: row .* is missing"):
        # This call reads the list of existing parts, so the loss of a part is detected later.
        StoredSplit(dataset, "train").read(0, len(source))
    with connect(dataset) as connection, pytest.raises(duckdb.IOException, match=parts[1].name):
        connection.execute("select count(*) from shifted_sequences").fetchall()


def test_a_user_s_query_reads_the_parts_and_no_other_file(forms: Forms) -> None:
    query = "select string_agg(token, ' ' order by place) as text from shifted_sequences, "
    query += "unnest(target_ids) with ordinality as target(id, place) join tokens on token_id = id "
    query += "where split = 'valid' group by sequence_id order by sequence_id"
    assert len(read(forms.parts.database, query=query)) == forms.parts.sequence_counts["valid"]
    for other in (forms.parts.folder / "dataset.json", forms.parts.parts / ".." / "dataset.json"):
        with pytest.raises(CorpusError, match="disabled by configuration"):
            read(
                forms.parts.database,
                query=f"select content as text from read_text('{str(other).replace(chr(39), chr(39) * 2)}')",
            )


@pytest.mark.long
def test_a_model_scores_both_forms_equally_and_force_changes_the_form(
    home: Home, toy_corpus: CorpusRecord, toy_tokenizer: TokenizerRecord, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    model = load_model(toy_run.model_folder)
    before = [score_split(model, toy_dataset, split) for split in SPLITS], training_counts(toy_dataset).tolist()
    config = SequencesConfig(parts_above_bytes=0)
    assert store_sequences(home, toy_corpus, toy_tokenizer, config).skipped
    assert not toy_dataset.parts.exists()
    dataset = store_sequences(home, toy_corpus, toy_tokenizer, config, force=True)
    assert dataset.folder == toy_dataset.folder
    assert dataset.parts.is_dir()
    assert ([score_split(model, dataset, split) for split in SPLITS], training_counts(dataset).tolist()) == before
    (part,) = dataset.parts.glob("train-*")
    part.write_bytes(b"")
    assert not store_sequences(home, toy_corpus, toy_tokenizer, config).skipped
    assert part.stat().st_size > 0
