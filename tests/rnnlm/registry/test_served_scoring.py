"""The served model scores and generates in the same way as the library, for each kind of model, tokenizer and mode."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from rnnlm.config import GenerationConfig, ModelKind, SequencesConfig, TokenizerConfig
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.generation.generate import continue_prompt
from rnnlm.models.model_factory import build_model, load_model, save_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.bundle import copy_portable_modules
from rnnlm.registry.served_model import PredictionRequest, ServedModel
from rnnlm.storage.home import Home, write_json
from rnnlm.storage.records import CorpusRecord, RunRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from tests.configs import plain_model

TEXTS = [
    "the cat sees the dog near the river .\nthe bird likes the fox near the tree .\n",
    "the fox",
    "",
    "\n\n",
    "the zebra sees the cat , <eos> é !\n\nthe dog .",
    " ".join(["the cat sees the dog near the river ."] * 20),  # This line is longer than the context.
]


def served(folder: Path, tmp_path: Path) -> ServedModel:
    """Return the MLflow model object that serves the model in `folder`."""
    code = tmp_path / "code"
    copy_portable_modules(code)
    model = ServedModel()
    context: Any = SimpleNamespace(artifacts={"bundle": str(folder), "code": str(code)})
    model.load_context(context)
    return model


def recut(folder: Path, cut: SequencesConfig) -> None:
    facts = json.loads((folder / "rnnlm.json").read_text(encoding="utf-8")) if (folder / "rnnlm.json").exists() else {}
    write_json(
        folder / "rnnlm.json", facts | {name: getattr(cut, name) for name in ("mode", "context_length", "block_length")}
    )


def agree(model: ServedModel, folder: Path, cut: SequencesConfig) -> None:
    """Assert that the served model and the library give the same scores for all texts."""
    library, tokenizer = load_model(folder), load_tokenizer(folder)
    for text, loss in zip(TEXTS, document_losses(library, tokenizer, TEXTS, cut), strict=True):
        score: Any = model.score(text)
        assert [token["token"] for token in score["tokens"]] == tokenizer.pieces(loss.token_ids.tolist())
        nats = [-token["log_probability_nats"] for token in score["tokens"]]
        assert nats == pytest.approx(loss.nll_nats.tolist(), rel=1e-4, abs=1e-6)
        assert -score["log_probability_nats"] == pytest.approx(loss.summed_nll_nats, rel=1e-5, abs=1e-9)
        if loss.tokens:
            assert score["perplexity"] == pytest.approx(loss.perplexity, rel=1e-5)
        else:
            assert score["perplexity"] is None
        if loss.byte_count:
            assert score["bits_per_byte"] == pytest.approx(loss.bits_per_byte, rel=1e-5)
        else:
            assert score["bits_per_byte"] is None


@pytest.mark.parametrize("cut", [SequencesConfig(context_length=7), SequencesConfig(mode="stream")])
def test_a_text_costs_what_the_library_says(toy_run: RunRecord, tmp_path: Path, cut: SequencesConfig) -> None:
    recut(toy_run.model_folder, cut)
    agree(served(toy_run.model_folder, tmp_path), toy_run.model_folder, cut)


@pytest.mark.parametrize(
    "tokenizer",
    [
        {"kind": "char"},
        {"kind": "bpe", "vocabulary_size": 300},
        {"kind": "word", "splitting": "textbook"},
        {"kind": "word", "splitting": "punctuation"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_every_kind_of_tokenizer_is_served_alike(
    home: Home, toy_corpus: CorpusRecord, tmp_path: Path, tokenizer: dict[str, object]
) -> None:
    record = train_tokenizer(home, toy_corpus, TokenizerConfig.model_validate(tokenizer))
    folder = shutil.copytree(record.folder, tmp_path / "bundle")
    model = build_model(plain_model({"hidden_size": 8}), record.vocabulary_size, seed=1)
    save_model(model, folder)
    recut(folder, SequencesConfig())
    agree(served(folder, tmp_path), folder, SequencesConfig())


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        {"tie_embeddings": True, "layers": 2, "embedding_size": 5},
        {"embedding_size": 5, "nonlinearity": "relu", "backend": "loop"},
        {"recurrence": "diagonal", "recurrent_initialization": "spread", "layers": 3, "residual": True},
        *({"kind": kind, "layers": 2, "tie_embeddings": True} for kind in get_args(ModelKind)[1:]),
    ],
)
def test_every_shape_of_model_scores_and_writes_as_the_library(
    toy_run: RunRecord, tmp_path: Path, shape: dict[str, object]
) -> None:
    folder = toy_run.model_folder
    save_model(build_model(plain_model({"hidden_size": 8} | shape), load_tokenizer(folder).vocabulary_size, 0), folder)
    agree(service := served(folder, tmp_path), folder, read_training_provenance(folder).cut)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    for settings in ({"temperature": 0.0}, {"temperature": 1.0, "top_k": 5, "seed": 2}, {"top_p": 0.5}):
        limited = settings | {"maximum_tokens": 5}
        for prompt in ("the cat", "a zebra sees"):
            written = service.continuation(PredictionRequest.model_validate({"prompt": prompt} | limited))
            expected = continue_prompt(model, tokenizer, prompt, GenerationConfig.model_validate(limited))
            assert written == expected.text
