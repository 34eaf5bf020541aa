"""The scores of the validation text are stored with the model, or computed if the model lacks them."""

import shutil

import pyarrow.parquet as pq
import pytest

from rnnlm.config import PipelineConfig
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.evaluation.measurements import Measured
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.extensions.scoring import reference_scores
from rnnlm.extensions.scoring.reference_scores import (
    DIGEST_KEY,
    REFERENCE_SCORES,
    find_reference,
    is_reference,
    keep_references,
    sampled_every,
    validation_texts,
)
from rnnlm.extensions.scoring.scoring_model import model_in
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked


def test_the_lines_add_up_to_the_evaluation(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    lines, paragraphs = keep_references(home, toy_dataset, toy_run)
    expected = toy_evaluation.scores["valid"]
    for path, documents in ((lines, 40), (paragraphs, 1)):
        found = pq.read_table(path)
        assert len(found) == documents
        assert sum(found["tokens"].to_pylist()) == expected.tokens
        nats = -sum(found["log_probability"].to_pylist())
        assert nats / expected.tokens == pytest.approx(expected.nll_nats_per_token, rel=1e-5)
        assert found["text"].null_count == documents


def test_it_is_scored_once(home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    paths = keep_references(home, toy_dataset, toy_run)
    times = [path.stat().st_mtime_ns for path in paths]
    assert [path.stat().st_mtime_ns for path in keep_references(home, toy_dataset, toy_run)] == times
    assert [path.stat().st_mtime_ns for path in keep_references(home, toy_dataset, toy_run, force=True)] != times


def test_what_a_killed_writer_left_is_swept(home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    folder = toy_run.model_folder / "reference"
    folder.mkdir()
    (folder / ".line.parquet.0f3a").write_bytes(b"half")
    keep_references(home, toy_dataset, toy_run)
    assert sorted(path.name for path in folder.iterdir()) == ["line.parquet", "paragraph.parquet"]


@pytest.mark.long
def test_a_model_of_truncated_lines_scores_whole_ones(home: Home, toy_config: PipelineConfig) -> None:
    """A model that was trained on truncated lines has reference scores of whole lines.

    A toy line has 10 predicted tokens. The dataset has only the first 5 of them.
    """
    config = changed(toy_config, {"sequences.context_length": 5, "sequences.long_lines": "truncate"})
    dataset = prepare_dataset(home, config)
    run = run_training(home, config, dataset, untracked)
    evaluation = evaluate_run(home, dataset, run, config.evaluation)
    assert evaluation.scores["valid"].tokens == dataset.predicted_tokens["valid"] == 40 * 5
    lines, _ = keep_references(home, dataset, run)
    assert pq.read_table(lines)["tokens"].to_pylist() == [10] * 40


def test_without_its_text_the_error_says_what_to_do(home: Home, toy_run: RunRecord) -> None:
    shutil.rmtree(home.corpora)
    with pytest.raises(CorpusError, match="--force corpus"):
        find_reference(home, toy_run.run_id, "line")
    shutil.rmtree(home.datasets)
    with pytest.raises(DatasetError, match="its dataset"):
        find_reference(home, toy_run.run_id, "line")


def test_that_of_another_model_or_a_damaged_one_is_not_taken(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    line, paragraph = keep_references(home, toy_dataset, toy_run)
    whole = line.read_bytes()
    line.write_bytes(whole[:100])
    other = pq.read_table(paragraph)
    pq.write_table(other.replace_schema_metadata({b"rnnlm model": b"another"}), paragraph)
    keep_references(home, toy_dataset, toy_run)
    assert line.read_bytes() == whole
    assert pq.read_table(paragraph) == other


@pytest.mark.long
def test_a_flipped_bit_is_never_taken_for_a_score(home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    line, _ = keep_references(home, toy_dataset, toy_run)
    whole, scores = line.read_bytes(), pq.read_table(line)
    model = model_in(toy_run.model_folder, "toy")
    taken = 0
    for place in range(0, len(whole), 23):
        line.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        if is_reference(line, model):
            taken += 1
            assert pq.read_table(line).equals(scores)
    # is_reference() accepts only flipped bits that affect no value, such as those in statistics.
    assert taken < len(whole) / 23
    line.write_bytes(whole[:1_000] + bytes([whole[1_000] ^ 4]) + whole[1_001:])
    keep_references(home, toy_dataset, toy_run)
    assert line.read_bytes() == whole


def test_a_reference_of_an_older_version_has_no_digest(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    line, _ = keep_references(home, toy_dataset, toy_run)
    scores = pq.read_table(line)
    metadata = {name: text for name, text in scores.schema.metadata.items() if name != DIGEST_KEY}
    pq.write_table(scores.replace_schema_metadata(metadata), line)
    assert is_reference(line, model_in(toy_run.model_folder, "toy"))


def test_a_flipped_bit_of_the_validation_text_is_not_scored(home: Home, toy_run: RunRecord) -> None:
    (text,) = home.corpora.glob("*/valid.txt")
    data = text.read_bytes()
    text.write_bytes(data[:700] + bytes([data[700] ^ 1]) + data[701:])
    with pytest.raises(CorpusError, match="have changed since the dataset was made"):
        find_reference(home, toy_run.run_id, "line")


@pytest.mark.parametrize(
    ("count", "byte_count", "expected"),
    [
        (3_370, 99_999, 1),
        # The Penn Treebank's validation split has 400 kB. The limit of 100 kB is a quarter of this.
        (3_370, 399_782, 4),
        (68, 399_782, 1),  # All 68 documents are used, because they are few.
        # Every second document is used, which gives 749 documents. Every third would give fewer than 500.
        (1_499, 5_000_000, 2),
        (25_000, 1, 3),
        (1_000_000, 50_000_000, 500),
        (0, 0, 1),
    ],
)
def test_the_sample_is_bounded_by_bytes_but_holds_enough_documents(count: int, byte_count: int, expected: int) -> None:
    assert sampled_every(count, byte_count) == expected


def test_losses_that_are_known_need_no_bound_of_bytes(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_in(toy_run.model_folder, "toy")
    monkeypatch.setattr(reference_scores, "ENOUGH_DOCUMENTS", 1)
    monkeypatch.setattr(reference_scores, "REFERENCE_BYTES", 1)
    steps = [validation_texts(home, toy_dataset, model, "line", known=known)[1] for known in (False, True)]
    assert steps == [40, 1]  # Every 40th line is scored if the losses are unknown, and every line if they are known.


def test_references_are_scores_of_the_validation_lines(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    line, paragraph = keep_references(home, toy_dataset, toy_run)
    assert REFERENCE_SCORES.measure(home, PipelineConfig(), toy_dataset, toy_run, False) == Measured()
    assert (line.stem, paragraph.stem) == ("line", "paragraph")
    scores = pq.read_table(line)
    assert scores["tokens"].to_pylist() == 40 * [10]  # Each line has nine words and <eos>.
    nats = -sum(scores["log_probability"].to_pylist())
    assert nats / 400 == pytest.approx(toy_evaluation.scores["valid"].nll_nats_per_token, rel=1e-5)
    assert pq.read_table(paragraph)["tokens"].to_pylist() == [400]
