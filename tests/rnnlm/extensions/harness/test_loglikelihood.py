"""The log-likelihood of a continuation equals a simple computation. For a file, it agrees with `rnnlm evaluate`."""

import math
from pathlib import Path

import pytest
import torch

from rnnlm.config import CorpusConfig, SequencesConfig
from rnnlm.evaluation.external_corpus import score_corpus
from rnnlm.extensions.harness.loglikelihood import continuation_rows, score_continuations, text_log_likelihoods
from rnnlm.models.language_model import LanguageModel
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.tokenizers.text_tokenizer import BOS, EOS, TextTokenizer
from tests.reference_log_probabilities import log_probabilities_of

STREAM, SENTENCE = SequencesConfig(mode="stream"), SequencesConfig(mode="sentence")
TEXT = "the cat sees the dog near the river .\n\nthe zebra likes the naïve fox .\nthe bird follows the cat\n"
PAIRS = [
    ("the cat sees", " the dog"),
    ("the cat sees the dog near the river .\nthe fox", " likes the bird .\n"),
    ("", "the dog"),
    # This context is longer than two evaluation windows.
    ("the fox likes the cat near the house .\n" * 70, "the dog sees"),
    ("the cat\n", "the bird\nthe fox"),
]


def read_slowly(model: LanguageModel, context_ids: list[int], ids: list[int]) -> float:
    """Return the log-probability of `ids` after `context_ids`, which begin with <bos>.

    One forward pass computes the logits, and the log-probability of each token is taken from them.
    """
    found = log_probabilities_of(model, [*context_ids, *ids[:-1]])[len(context_ids) - 1 :].double()
    return float(found[torch.arange(len(ids)), torch.tensor(ids)].sum())


def running(tokenizer: TextTokenizer, text: str) -> list[int]:
    """Return the token ids of a text, with an <eos> for every line feed."""
    first, *others = [tokenizer.encode(line) for line in text.split("\n")]
    return [*first, *(token_id for line in others for token_id in [EOS, *line])]


def score(
    model: LanguageModel, tokenizer: TextTokenizer, cut: SequencesConfig, *pairs: tuple[str, str], size: int = 64
) -> list[tuple[float, bool]]:
    return score_continuations(model, [continuation_rows(tokenizer, cut, *pair) for pair in pairs], size)


def test_the_whole_context_counts_whatever_the_batch(
    model_of_any_kind: LanguageModel, tokenizer: TextTokenizer
) -> None:
    slow = [
        read_slowly(model_of_any_kind, [BOS, *running(tokenizer, context)], running(tokenizer, continuation))
        for context, continuation in PAIRS
    ]
    one, many = (score(model_of_any_kind, tokenizer, STREAM, *PAIRS, size=size) for size in (1, 2))
    assert [nats for nats, _ in one] == pytest.approx(slow, rel=1e-4)
    assert [nats for nats, _ in many] == pytest.approx(slow, rel=1e-4)
    assert [greedy for _, greedy in one] == [greedy for _, greedy in many]


def test_a_sentence_reads_only_its_own_line(sentence_model: LanguageModel, tokenizer: TextTokenizer) -> None:
    encode = tokenizer.encode
    slow = [
        read_slowly(sentence_model, [BOS, *encode("the cat sees")], encode("the dog")),
        read_slowly(sentence_model, [BOS, *encode("the fox")], [*encode("likes the bird ."), EOS]),
        read_slowly(sentence_model, [BOS], encode("the dog")),
        read_slowly(sentence_model, [BOS], encode("the dog sees")),
        read_slowly(sentence_model, [BOS], [*encode("the bird"), EOS])
        + read_slowly(sentence_model, [BOS], encode("the fox")),
    ]
    found = score(sentence_model, tokenizer, SENTENCE, *PAIRS)
    assert [nats for nats, _ in found] == pytest.approx(slow, rel=1e-4)


def test_unknown_words_cost_their_bytes_and_are_never_greedy(
    stream_model: LanguageModel, tokenizer: TextTokenizer
) -> None:
    pairs = [("the cat sees the", " zebra"), ("the cat sees the", " ox"), ("the zebra sees the", " cat")]
    (zebra, greedy), (ox, _), (known, _) = score(stream_model, tokenizer, STREAM, *pairs)
    # Both words are <unk>. " zebra" has three more letters than " ox", and each letter costs 8 bits.
    assert ox - zebra == pytest.approx(3 * 8 * math.log(2))
    assert not greedy
    unknown = tokenizer.encode("the zebra sees the")
    assert known == pytest.approx(read_slowly(stream_model, [BOS, *unknown], tokenizer.encode("cat")), rel=1e-4)


def test_the_model_s_own_continuation_is_greedy(stream_model: LanguageModel, tokenizer: TextTokenizer) -> None:
    ids = [BOS, *tokenizer.encode("the cat")]
    for _ in range(4):
        ids.append(int(log_probabilities_of(stream_model, ids)[-1].argmax()))
    written = " " + tokenizer.decode(ids[3:])
    assert EOS not in ids
    (_, greedy), (_, other) = score(
        stream_model, tokenizer, STREAM, ("the cat", written), ("the cat", f"{written.rsplit(' ', 1)[0]} tree tree")
    )
    assert (greedy, other) == (True, False)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["stream", "sentence"])
def test_a_whole_file_costs_what_evaluate_says(
    home: Home, stream_folder: Path, toy_run: RunRecord, tokenizer: TextTokenizer, tmp_path: Path, mode: str
) -> None:
    """The log-likelihood of a whole file gives the bits per byte that `rnnlm evaluate` prints.

    The file has blank lines, unknown words, letters of two bytes, and more than one evaluation window.
    """
    from rnnlm.models.model_factory import load_model

    folder = stream_folder if mode == "stream" else toy_run.model_folder
    text = TEXT * 30
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    evaluated = score_corpus(home, folder, CorpusConfig(source=str(tmp_path / "text.txt")))
    cut = STREAM if mode == "stream" else SENTENCE
    nats, last = text_log_likelihoods(load_model(folder), tokenizer, cut, [text, "the cat"], 1)
    assert nats < 10 * last < 0  # The results have the order of the texts. The first text is far longer than the last.
    assert evaluated.split == "all"
    assert -nats / math.log(2) / len(text.encode()) == pytest.approx(evaluated.bits_per_byte, rel=1e-6)
