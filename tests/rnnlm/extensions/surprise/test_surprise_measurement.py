"""The Parquet files in RUN/losses are written only once. The tables agree with a calculation by hand."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rnnlm.config import EvaluationConfig, PipelineConfig
from rnnlm.errors import DatasetError, ModelError
from rnnlm.evaluation.token_losses import TOKEN_LOSS
from rnnlm.extensions.surprise.surprise_measurement import query_surprise, surprise_of_model, surprise_of_run
from rnnlm.extensions.surprise.surprise_page import SURPRISE
from rnnlm.extensions.surprise.token_loss_files import SEQUENCES, TOKENS, write_token_losses
from rnnlm.storage.home import Home
from rnnlm.storage.records import LOSSES, DatasetRecord, RunRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.tokenizers.text_tokenizer import TextTokenizer, load_tokenizer

# The stream has the sentences 5 <unk> 6 <eos>, 5 5 5 5 6 <eos>, and <eos>.
TEXT = [5, 1, 6, 3, 5, 5, 5, 5, 6, 3, 3]
NATS = [1.0, 4.0, 2.0, 1.0, 0.5, 0.5, 1.0, 1.0, 3.0, 1.0, 0.25]
COUNTS = np.array([0, 1, 0, 3, 4, 70, 0])  # The numbers of times that the ids 0 to 6 are targets in the training split.


@pytest.fixture
def tokenizer(toy_run: RunRecord) -> TextTokenizer:
    return load_tokenizer(toy_run.model_folder)


def losses_of(text: list[int], nats: list[float]) -> np.ndarray:
    """Return the losses of a stream in blocks of four tokens, as an array of dtype TOKEN_LOSS and shape (tokens,)."""
    rows = zip(np.arange(len(text)) // 4, [2, *text[:-1]], text, nats, strict=True)
    return np.array(list(rows), TOKEN_LOSS)


def in_chunks(losses: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (losses[first : first + size] for first in range(0, len(losses), size))


@pytest.fixture
def written(tmp_path: Path, tokenizer: TextTokenizer) -> Path:
    """Write the loss files of TEXT, and return their folder."""
    write_token_losses(tmp_path, [losses_of(TEXT, NATS)], "test", COUNTS, tokenizer)
    return tmp_path


def test_sentences_are_the_lines_of_the_text(written: Path, tokenizer: TextTokenizer) -> None:
    tokens = pq.read_table(written / TOKENS).to_pydict()
    assert tokens["sentence_id"] == [0] * 4 + [1] * 6 + [2]
    assert tokens["position"] == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 0]
    assert tokens["training_count"] == [COUNTS[token] for token in TEXT]
    sentences = pq.read_table(written / SEQUENCES).to_pydict()
    assert sentences["tokens"] == [4, 6, 1]
    assert sentences["nll_nats"] == [8.0, 7.0, 0.25]
    # The sentences begin in the blocks 0, 1 and 2, each of which has four tokens.
    assert sentences["sequence_id"] == [0, 1, 2]
    assert sentences["perplexity"] == pytest.approx([math.exp(2), math.exp(7 / 6), math.exp(0.25)])
    assert sentences["text"][0] == " ".join(tokenizer.pieces([5, 1, 6]))


@pytest.mark.long
def test_a_sample_has_whole_sentences_and_does_not_depend_on_chunks(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    text = np.concatenate([losses_of(TEXT, NATS)] * 100)
    whole, sample, again, tokens = (tmp_path / name for name in ("whole", "sample", "again", "tokens"))
    for folder, share, chunk in ((whole, 1.0, 1100), (sample, 0.3, 1100), (again, 0.3, 70), (tokens, 0.3, 1)):
        folder.mkdir()
        write_token_losses(folder, in_chunks(text, chunk), "test", COUNTS, tokenizer, share)
    kept = pq.read_table(sample / SEQUENCES)
    assert 60 < len(kept) < 120  # The sample contains about 0.3 of the 300 sentences.
    for name in (TOKENS, SEQUENCES):
        everything = pq.read_table(whole / name)
        of_kept = pc.is_in(everything["sentence_id"], value_set=kept["sentence_id"].combine_chunks())
        assert pq.read_table(sample / name) == everything.filter(of_kept)
        assert pq.read_table(again / name) == pq.read_table(tokens / name) == pq.read_table(sample / name)


def test_the_tables_equal_those_by_hand(written: Path) -> None:
    tables = query_surprise(written)
    assert (tables.tokens, tables.nll_nats) == (11, 15.25)
    assert tables.perplexity == pytest.approx(math.exp(15.25 / 11))
    # Only the second sentence has at least MINIMUM_TOKENS = 5 tokens.
    assert [row["sentence_id"] for row in tables.worst_sentences] == [1]
    by_position = {row["first_position"]: (row["tokens"], row["nll_nats_per_token"]) for row in tables.by_position}
    assert by_position[0] == (3, pytest.approx((1.0 + 0.5 + 0.25) / 3))
    assert by_position[4] == (1, 3.0)
    by_frequency = {row["first_count"]: row for row in tables.by_frequency}
    # In training, the id 6 never occurs, <unk> once, <eos> three times, and the id 5 seventy times.
    assert list(by_frequency) == [0, 1, 64]
    assert by_frequency[1]["last_count"] == 3
    assert by_frequency[64]["last_count"] == 255
    assert (by_frequency[1]["types"], by_frequency[1]["tokens"]) == (2, 4)
    assert by_frequency[64]["nll_nats_per_token"] == pytest.approx((1.0 + 0.5 + 0.5 + 1.0 + 1.0) / 5)
    assert sum(row["share_of_loss"] for row in tables.by_frequency) == pytest.approx(1.0)
    # In the first sentence, <unk> is one token before the 6, and two tokens before the <eos>.
    neighbours = {row["distance"]: (row["tokens"], row["nll_nats_per_token"]) for row in tables.by_neighbours}
    assert neighbours == {0: (9, pytest.approx(12.25 / 9)), 1: (1, 2.0), 2: (1, 1.0)}


@pytest.mark.long
def test_a_runs_losses_sum_to_its_score_and_are_made_once(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, toy_evaluation: EvaluationRecord
) -> None:
    first = surprise_of_run(home, toy_dataset, toy_run, EvaluationConfig())
    score = toy_evaluation.scores["test"]
    assert not first.skipped
    assert first.tables.tokens == score.tokens
    assert first.tables.nll_nats == pytest.approx(score.nll_nats_per_token * score.tokens, rel=1e-8)
    again = surprise_of_model(home, toy_run.model_folder)
    assert again == first.model_copy(update={"skipped": True})
    (first.folder / TOKENS).write_bytes(b"damaged")
    mended = surprise_of_model(home, toy_run.model_folder)
    assert (mended.skipped, mended.tables) == (False, first.tables)
    assert {path.name for path in first.pictures} == {"loss_by_frequency.png", "loss_by_position.png"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "sought"),
    [("surprise.json", b'"key"'), ("surprise.json", b'"tables"'), ("surprise.json", b"{"), (TOKENS, b"PAR1")],
)
def test_a_damaged_file_is_made_again(
    home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord, file: str, sought: bytes
) -> None:
    before = surprise_of_model(home, toy_run.model_folder)
    path = before.folder / file
    data = path.read_bytes()
    place = data.index(sought) + len(sought) // 2
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    again = surprise_of_model(home, toy_run.model_folder)
    assert not again.skipped
    assert again.tables == before.tables
    assert path.read_bytes() == data


def test_a_missing_run_or_dataset_is_named(home: Home, toy_dataset: DatasetRecord, toy_run: RunRecord) -> None:
    (toy_dataset.folder / "dataset.json").unlink()
    with pytest.raises(DatasetError, match=toy_dataset.dataset_id):
        surprise_of_model(home, toy_run.model_folder)
    (toy_run.folder / "run.json").unlink()
    with pytest.raises(ModelError, match=r"run\.json"):
        surprise_of_model(home, toy_run.model_folder)


@pytest.mark.long
def test_surprise_stores_the_loss_of_every_test_token(
    home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
) -> None:
    report = SURPRISE.measure(home, toy_config, toy_dataset, toy_run, False).page
    tokens = pq.read_table(toy_run.folder / LOSSES / "tokens.parquet")
    assert len(tokens) == 400
    mean = sum(tokens["nll_nats"].to_pylist()) / 400
    assert math.exp(mean) == pytest.approx(toy_evaluation.scores["test"].perplexity, rel=1e-5)
    assert "data:image/png;base64,iVBOR" in report
