"""The tokens of each validation line are used either for model selection or for comparing models, in every mode.

The tuning sample contains only tokens that are used for model selection.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from rnnlm.config import CorpusConfig, SequencesConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.corpora.line_digests import chooses, line_digests
from rnnlm.corpora.splits import corpus_documents
from rnnlm.errors import DatasetError
from rnnlm.evaluation.batch_losses import nll_of_batches
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.sequences.shift import shifted_rows
from rnnlm.sequences.tuning_sample import TuningSample
from rnnlm.sequences.validation_lines import all_lines_choose, choosing_tokens
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord
from rnnlm.tokenizers.text_tokenizer import EOS, PAD, load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tests.configs import plain_model

WORDS = ["ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen"]
CUTS: list[dict[str, Any]] = [
    {},
    {"context_length": 3},
    {"context_length": 3, "long_lines": "truncate"},
    {"mode": "stream", "block_length": 7},
    {"mode": "stream", "block_length": 500},
]


def dataset_of(
    home: Home, folder: Path, text: str, cut: dict[str, Any], kind: str = "word"
) -> tuple[CorpusRecord, DatasetRecord]:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    corpus = obtain_corpus(home, CorpusConfig(source=str(folder / "text.txt"), valid_share=0.3))
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig(kind=kind))
    return corpus, store_sequences(home, corpus, tokenizer, SequencesConfig(**cut))


def sentences(count: int) -> str:
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randrange(1, 12))) + "\n" for _ in range(count)]
    return "".join(line + "\n" * (number % 9 == 0) for number, line in enumerate(lines))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], tuple[CorpusRecord, DatasetRecord]]:
    """Return a function that returns the corpus and the dataset of 300 lines for a mode and a kind of tokenizer.

    Each corpus and dataset is created only once.
    """
    folder = tmp_path_factory.mktemp("cuts")
    home = Home(folder / "home")
    return cache(lambda cut, kind: dataset_of(home, folder, sentences(300), CUTS[cut], kind))


@pytest.mark.parametrize("cut", range(len(CUTS)))
@pytest.mark.parametrize("kind", ["word", "char"])
def test_the_tokens_that_choose_are_those_of_the_choosing_lines(
    made: Callable[[int, str], tuple[CorpusRecord, DatasetRecord]], cut: int, kind: str
) -> None:
    corpus, dataset = made(cut, kind)
    config, tokenizer = SequencesConfig(**CUTS[cut]), load_tokenizer(dataset.tokenizer_folder)
    expected, tokens = [], []
    for document in corpus_documents(corpus):
        if document.split == "valid":
            for line, digest in zip(
                document.lines, line_digests([one.encode() for one in document.lines]), strict=True
            ):
                ids = [*tokenizer.encode(line), EOS] if line or config.mode == "stream" else []
                ids = ids[: config.context_length] if config.long_lines == "truncate" else ids
                expected += [chooses(digest)] * len(ids)
                tokens += ids
    found = choosing_tokens(dataset)
    assert found.tolist() == expected
    split = StoredSplit(dataset, "valid")
    assert shifted_rows(split.read(0, len(split)))[1].tolist() == tokens


@pytest.mark.parametrize("cut", range(len(CUTS)))
@pytest.mark.parametrize("tokens", [None, 1, 50, 10_000])
@pytest.mark.parametrize("world_size", [1, 3])
def test_a_tuning_sample_has_choosing_tokens_alone_once_each(
    made: Callable[[int, str], tuple[CorpusRecord, DatasetRecord]], cut: int, tokens: int | None, world_size: int
) -> None:
    _, dataset = made(cut, "word")
    sample = TuningSample(dataset, tokens)
    batches = [batch for rank in range(world_size) for batch in sample.batches(16, rank, world_size)]
    targets = np.concatenate([batch.target_ids[batch.mask].numpy() for batch in batches])
    split = StoredSplit(dataset, "valid")
    chosen = shifted_rows(split.read(0, len(split)))[1][choosing_tokens(dataset)]
    assert len(targets) == sample.predicted_count == sum(batch.predicted_tokens for batch in batches)
    assert 0 < len(targets) <= len(chosen)
    if tokens is None or tokens == 10_000:
        assert sorted(targets.tolist()) == sorted(chosen.tolist())
    elif CUTS[cut].get("mode") != "stream":
        assert len(targets) <= tokens + dataset.predicted_tokens["valid"] // 10
    assert not np.isin(targets, [PAD]).any()


@pytest.mark.parametrize("cut", [0, 3])
def test_the_loss_of_a_sample_is_that_within_the_whole_text(
    made: Callable[[int, str], tuple[CorpusRecord, DatasetRecord]], cut: int
) -> None:
    from rnnlm.evaluation.token_losses import joined_nll, nll_of_split

    _, dataset = made(cut, "word")
    model = build_model(plain_model({"hidden_size": 8}), dataset.vocabulary_size, 0)
    whole = joined_nll(nll_of_split(model, StoredSplit(dataset, "valid"), dataset.mode))
    nats, count = nll_of_batches(model, TuningSample(dataset, None).batches(8))
    chosen = choosing_tokens(dataset)
    assert count == chosen.sum()
    assert nats == pytest.approx(whole[chosen].sum(dtype=np.float64), rel=1e-5)


def test_if_no_line_chooses_all_do(home: Home, tmp_path: Path) -> None:
    """All lines are used for model selection if the digests would reserve all of them for comparing models."""
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=5)) + "\n\n" for _ in range(200)]
    kept = [line for line in lines if not chooses(line_digests([line.encode()])[0])]
    _, dataset = dataset_of(home, tmp_path, "".join(kept), {})
    assert choosing_tokens(dataset).all()
    assert all_lines_choose(dataset)
    assert TuningSample(dataset, None).predicted_count == dataset.predicted_tokens["valid"]


def test_a_dataset_of_an_older_rnnlm_is_refused_with_what_to_do(home: Home, tmp_path: Path) -> None:
    _, dataset = dataset_of(home, tmp_path, sentences(100), {})
    with duckdb.connect(str(dataset.database)) as connection:
        connection.execute("drop table validation_lines")
    with pytest.raises(DatasetError, match="an older version of rnnlm made this dataset") as caught:
        choosing_tokens(dataset)
    assert len(str(caught.value).splitlines()) <= 3
