"""Each reader detects a flipped bit in a stored result, and refuses the file or creates it again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnlm.config import EvaluationConfig, GenerationConfig
from rnnlm.corpora.download import StoredText, obtain_corpus
from rnnlm.errors import RnnlmError
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.evaluation.training_overlap import copied_shares
from rnnlm.generation.generate import generate_samples
from rnnlm.registry.model_lookup import model_folder
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, RunRecord
from rnnlm.tracking.run_comparison import list_runs


class Readers:
    """Readers of an rnnlm home with a finished run. Each method returns the values that a command would print."""

    def __init__(self, home: Home, corpus: CorpusRecord, dataset: DatasetRecord, run: RunRecord) -> None:
        self.home, self.corpus, self.dataset, self.run = home, corpus, dataset, run

    def model(self) -> str:
        return str(model_folder(self.home, self.run.run_id))

    def find_dataset(self) -> Any:
        return find_dataset(self.home, self.dataset.dataset_id)

    def text(self) -> Any:
        known = StoredText(source="gone.txt", text_digest=self.corpus.digest)
        return obtain_corpus(self.home, known).model_copy(update={"seconds": 0.0})

    def evaluation(self) -> Any:
        return evaluate_run(self.home, self.dataset, self.run, EvaluationConfig()).scores

    def samples(self) -> Any:
        config = GenerationConfig(prompts=["the cat"], maximum_tokens=8)
        return generate_samples(self.home, self.dataset, self.run, config).samples

    def losses(self) -> Any:
        return stored_nll(self.home, self.dataset, self.run, "test", 64).tolist()

    def description(self) -> Any:
        return describe_dataset(self.home, self.dataset)[0]

    def copies(self) -> Any:
        return copied_shares(self.home, self.dataset)

    def runs(self) -> Any:
        [listed] = list_runs(self.home)
        return listed.test_perplexity, listed.damage


@pytest.fixture
def readers(home: Home, toy_corpus: CorpusRecord, toy_dataset: DatasetRecord, toy_run: RunRecord) -> Readers:
    return Readers(home, toy_corpus, toy_dataset, toy_run)


# Each row is a file, a method of Readers, and the outcome: the file is refused, it is created again with the same
# result, or the damage is reported.
TABLE = [
    ("runs/*/model/model.safetensors", Readers.model, "refused"),
    ("runs/*/model/tokenizer.json", Readers.model, "refused"),
    ("runs/*/model/config.json", Readers.model, "refused"),
    ("runs/*/run.json", Readers.model, "refused"),
    ("runs/*/config.json", Readers.model, "refused"),
    ("runs/*/history.jsonl", Readers.model, "refused"),
    ("runs/*/history.jsonl", Readers.runs, "told"),
    ("runs/*/config.json", Readers.runs, "told"),
    ("runs/*/evaluation.json", Readers.evaluation, "same"),
    ("runs/*/samples.json", Readers.samples, "same"),
    ("runs/*/nll-test/nll.npy", Readers.losses, "same"),
    ("runs/*/nll-test/key.json", Readers.losses, "same"),
    ("datasets/*/sequences.duckdb", Readers.find_dataset, "refused"),
    ("datasets/*/dataset.json", Readers.find_dataset, "refused"),
    ("datasets/*/tokenizer/tokenizer.json", Readers.find_dataset, "refused"),
    ("descriptions/*/description.json", Readers.description, "same"),
    ("descriptions/copies-*.json", Readers.copies, "same"),
    ("corpora/*/train.txt", Readers.text, "refused"),
    ("corpora/*/test.txt", Readers.text, "refused"),
    ("corpora/*/corpus.json", Readers.text, "refused"),
]


@pytest.mark.long
@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("pattern", "read", "expected"), TABLE)
def test_a_reader_does_not_use_a_flipped_bit(
    readers: Readers, pattern: str, read: Callable[[Readers], Any], expected: str, place: float
) -> None:
    before = read(readers)
    [path] = readers.home.root.glob(pattern)
    flip(path, place)
    try:
        after = read(readers)
    except RnnlmError as error:
        assert expected == "refused", error
        assert "damaged" in str(error)
        return
    assert expected != "refused"
    if expected == "same":
        assert after == before
    elif expected == "told":
        assert "differs from its sha256" in after[1]


def flip(path: Path, place: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 1
    path.write_bytes(data)
