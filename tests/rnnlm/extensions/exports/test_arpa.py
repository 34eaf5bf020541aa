"""An ARPA file has the probabilities of the counts, for a reader of its own and, where it is installed, for KenLM."""

import importlib
import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rnnlm.errors import ModelError
from rnnlm.extensions.exports.arpa import export_arpa, spellings
from rnnlm.models.count_model import CountModel
from rnnlm.models.model_factory import save_model
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.tokenizers.text_tokenizer import BOS, load_tokenizer
from tests.rnnlm.conftest import Storyteller

Entries = dict[tuple[str, ...], tuple[float, float]]  # n-gram → log₁₀ of its probability, of its back-off weight


def read_arpa(file: Path) -> Entries:
    entries: Entries = {}
    sizes: dict[int, int] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("ngram "):
            order, size = map(int, line.removeprefix("ngram ").split("="))
            sizes[order] = size
        elif "\t" in line:
            probability, text, *weight = line.split("\t")
            entries[tuple(text.split(" "))] = float(probability), float(weight[0]) if weight else 0.0
    for order, size in sizes.items():
        assert sum(len(ngram) == order for ngram in entries) == size
    return entries


def score(entries: Entries, context: tuple[str, ...], word: str) -> float:
    """log₁₀ p(word | context), by Katz's recursion."""
    if (*context, word) in entries:
        return entries[*context, word][0]
    return entries.get(context, (0.0, 0.0))[1] + score(entries, context[1:], word)


def rows_of(storyteller: Storyteller, split: str = "test", count: int = 100) -> list[list[int]]:
    rows = StoredSplit(storyteller.dataset, split).read(0, count)
    return [rows.token_ids[first:last].tolist() for first, last in itertools.pairwise(rows.offsets)]


def expected_scores(counts: CountModel, row: Sequence[int]) -> list[float]:
    contexts = [[*row[:end][::-1], *[0] * counts.order][: counts.order - 1] for end in range(1, len(row))]
    found, _ = counts.log_probabilities(np.array(contexts), np.array(row[1:]))
    return (found / math.log(10)).tolist()


def test_every_token_has_its_probability_and_unseen_ones_back_off(storyteller: Storyteller, tmp_path: Path) -> None:
    record = export_arpa(storyteller.folder, tmp_path / "out" / "model.arpa")
    assert record.without_network
    entries = read_arpa(record.file)
    words = spellings(load_tokenizer(storyteller.folder).pieces(range(storyteller.dataset.vocabulary_size)))
    mixture = storyteller.model().mixture
    assert mixture is not None
    unseen = 0
    for row in [*rows_of(storyteller), [BOS, *np.random.default_rng(0).integers(1, len(words), 500).tolist()]]:
        row = [token for place, token in enumerate(row) if token != BOS or not place]
        spelled = [words[token] for token in row]
        order = mixture.counts.order
        got = [
            score(entries, tuple(spelled[max(0, end - order + 1) : end]), spelled[end]) for end in range(1, len(row))
        ]
        unseen += sum(tuple(spelled[end - 2 : end]) not in entries for end in range(2, len(row)))
        assert got == pytest.approx(expected_scores(mixture.counts, row), abs=1e-5)
    assert unseen > 100


def test_kenlm_reads_the_file(storyteller: Storyteller, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="a package that compiles")
    record = export_arpa(storyteller.folder, tmp_path / "model.arpa")
    model = importlib.import_module("kenlm").Model(str(record.file))
    words = spellings(load_tokenizer(storyteller.folder).pieces(range(storyteller.dataset.vocabulary_size)))
    mixture = storyteller.model().mixture
    assert mixture is not None
    draw = random.Random(0)
    known = rows_of(storyteller, "train", 500)
    shuffled = [[row[0], *draw.sample(row[1:-1], len(row) - 2), row[-1]] for row in known]  # most n-grams back off
    assert len(known + shuffled) == 1_000
    for row in known + shuffled:
        sentence = " ".join(words[token] for token in row[1:-1])
        got = [found for found, _, _ in model.full_scores(sentence)]
        assert got == pytest.approx(expected_scores(mixture.counts, row), abs=1e-4)


def test_a_network_alone_has_no_counts_to_export(storyteller: Storyteller, tmp_path: Path) -> None:
    save_model(storyteller.network(), tmp_path)
    with pytest.raises(ModelError, match="no counts"):
        export_arpa(tmp_path, tmp_path / "model.arpa")
