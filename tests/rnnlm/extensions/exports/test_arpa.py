"""The n-gram model's probabilities are computed from an ARPA file by an independent reader and, if installed, KenLM."""

import importlib
import importlib.util
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
from rnnlm.models.model_factory import load_model, save_model
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, load_tokenizer
from rnnlm.training.training_run import run_training
from tests.configs import plain_config
from tests.conftest import untracked
from tests.rnnlm.conftest import Storyteller

# For each n-gram, log₁₀ of its probability and of its back-off weight.
Entries = dict[tuple[str, ...], tuple[float, float]]


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
    """Return log₁₀ p(word | context) by Katz's recursion."""
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
    # Shuffled rows contain many unknown n-grams, for which back-off weights are needed.
    shuffled = [[row[0], *draw.sample(row[1:-1], len(row) - 2), row[-1]] for row in known]
    assert len(known + shuffled) == 1_000
    for row in known + shuffled:
        sentence = " ".join(words[token] for token in row[1:-1])
        got = [found for found, _, _ in model.full_scores(sentence)]
        assert got == pytest.approx(expected_scores(mixture.counts, row), abs=1e-4)


ODD_LINES = (
    "<s> a cat sat </s>",  # A line of a corpus for SRILM, with marked sentence ends.
    "<s> <s> a dog </s>",
    "<UNK> <unk> a <pad> <bos> cat <eos> sat",
    "<0x3C>s> a <0x3C>/s> <0x3C>0x3C>s> <empty> dog",
    "\0 a\0cat <0x00> a<0x00>cat sat",
    "\\data\\ \\end\\ \\1-grams: ngram 1=7",
)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
def test_markers_in_the_text_are_words_of_their_own(kind: str, tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text("".join(f"{line}\n" for line in ODD_LINES * 20), encoding="utf-8")
    home = Home(tmp_path / "home")
    settings = {"corpus.source": str(tmp_path / "odd.txt"), "tokenizer.kind": kind, "model.kind": "kneser-ney"}
    config = plain_config(settings)
    run = run_training(home, config, prepare_dataset(home, config), untracked)
    record = export_arpa(run.model_folder, tmp_path / "odd.arpa")
    listed = [line.split("\t")[1] for line in record.file.read_text(encoding="utf-8").split("\n") if "\t" in line]
    assert len(listed) == len(set(listed)) == sum(record.ngrams)
    tokenizer = load_tokenizer(run.model_folder)
    words = spellings(tokenizer.pieces(range(tokenizer.vocabulary_size)))
    mixture = load_model(run.model_folder).mixture
    assert mixture is not None
    entries = read_arpa(record.file)
    order = mixture.counts.order
    for row in [[BOS, *tokenizer.encode(line), EOS] for line in ODD_LINES]:
        spelled = [words[token] for token in row]
        got = [
            score(entries, tuple(spelled[max(0, end - order + 1) : end]), spelled[end]) for end in range(1, len(row))
        ]
        assert got == pytest.approx(expected_scores(mixture.counts, row), abs=1e-5)
        assert scores_by_kenlm(record.file, spelled) in (None, pytest.approx(got, abs=1e-4))


def scores_by_kenlm(file: Path, words: Sequence[str]) -> list[float] | None:
    """Return log₁₀ of each word's probability by the kenlm package, or None if the package is not installed."""
    if importlib.util.find_spec("kenlm") is None:
        return None
    model = importlib.import_module("kenlm").Model(str(file))
    return [found for found, _, _ in model.full_scores(" ".join(words[1:-1]))]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["<s>", "</s>", "<unk>", "<UNK>"], ["<0x3C>s>", "<0x3C>/s>", "<0x3C>unk>", "<0x3C>UNK>"]),
        (["<0x3C>s>", "<s>"], ["<0x3C>s>", "<0x3C>0x3C>s>"]),
        ([" ", "<0x20>"], ["<0x20>", "<0x3C>0x20>"]),
        (["<empty>", ""], ["<empty>", "<0x3C>empty>"]),
        # An id without a token, which a pretrained vocabulary may have, is spelled "None".
        (["None", "None"], ["None", "<0x4E>one"]),
        (["a\0b", "\u3000", "\x85"], ["a<0x00>b", "<0x3000>", "<0x85>"]),
    ],
)
def test_no_two_tokens_are_spelled_alike(pieces: list[str], expected: list[str]) -> None:
    assert spellings(["<pad>", "<unk>", "<bos>", "<eos>", *pieces]) == ["<pad>", "<unk>", "<s>", "</s>", *expected]


def test_a_network_alone_has_no_counts_to_export(storyteller: Storyteller, tmp_path: Path) -> None:
    save_model(storyteller.network(), tmp_path)
    with pytest.raises(ModelError, match="no counts"):
        export_arpa(tmp_path, tmp_path / "model.arpa")
