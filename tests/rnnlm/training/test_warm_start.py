"""A warm start copies the weights of an earlier model. Tokens with the same spelling keep their embedding."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
import torch

from rnnlm.config import ModelConfig, PipelineConfig, TokenizerConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import ModelError
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.registry.bundle import model_digest
from rnnlm.registry.starting_model import find_difference
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord, StartedFrom
from rnnlm.storage.stages import mark_complete
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.training.checkpointing.run_lookup import find_unfinished
from rnnlm.training.training_run import name_run, run_training
from rnnlm.training.warm_start import copy_weights, shared_tokens, start_folder
from tests.configs import changed, plain_model
from tests.conftest import UntrackedRun, untracked

# SHARED maps new ids to old ids. The four special tokens keep their ids, the old tokens 4 and 5 become 6 and 4, and 5
# is a new word.
SHARED = {0: 0, 1: 1, 2: 2, 3: 3, 6: 4, 4: 5}
ARCHITECTURES = {
    "untied": {},
    "tied": {"tie_embeddings": True},
    "projection": {"tie_embeddings": True, "embedding_size": 3},
    "another embedding size": {"embedding_size": 3},
    "one-hot": {"input": "one-hot"},
    "residual diagonal layers": {
        "layers": 2,
        "residual": True,
        "recurrence": "diagonal",
        "recurrent_initialization": "identity",
    },
}


def trained(config: ModelConfig, vocabulary_size: int, seed: int) -> LanguageModel:
    """Return a model in which every weight differs from its initial value, as after training."""
    model = build_model(config, vocabulary_size, seed)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn(weight.shape, generator=draw))
        if not model.config["one_hot"]:
            model.embedding.weight[0] = 0.0
    return model


@pytest.mark.parametrize("settings", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_new_tokens_keep_their_initial_rows(settings: dict[str, object]) -> None:
    config = plain_model({"hidden_size": 4, **settings})
    log_unigram = torch.linspace(-3.0, -1.0, 7).numpy()  # The initial bias of a new word is its log frequency.
    new, fresh = (build_model(config, 7, 2, log_unigram) for _ in range(2))
    copy_weights(new, trained(config, 6, seed=1), SHARED)
    one_hot = settings.get("input") == "one-hot"
    for name in ("head.weight", "head.bias", "stack.cells.0.W" if one_hot else "embedding.weight"):
        assert torch.equal(new.get_parameter(name)[5], fresh.get_parameter(name)[5]), name
    if one_hot:
        assert torch.equal(new.embedding.weight[1:], torch.eye(7)[1:])


@pytest.mark.parametrize("settings", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_known_tokens_keep_their_logits_in_a_warm_start(settings: dict[str, object]) -> None:
    """Before training, known tokens have the same logits as in the earlier model.

    Each model encodes the text with its own vocabulary.
    """
    config = plain_model({"hidden_size": 4, **settings})
    old, new = trained(config, 6, seed=1).eval(), build_model(config, 7, seed=2).eval()
    copy_weights(new, old, SHARED)
    logits_before, _ = old(torch.tensor([[2, 4, 5, 1]]))
    logits_now, _ = new(torch.tensor([[2, 6, 4, 1]]))
    assert torch.equal(logits_now[..., [1, 3, 6, 4]], logits_before[..., [1, 3, 4, 5]])


def grown_dataset(home: Home, folder: Path, config: PipelineConfig) -> DatasetRecord:
    """Return a dataset of the toy corpus with two new words, which change the ids of old words."""
    later = shutil.copytree(config.corpus.source, folder)
    with (later / "train.txt").open("a", encoding="utf-8") as text:
        text.write("the zebra admires the cat near the river .\n" * 40)
    corpus = config.corpus.model_copy(update={"source": str(later), "name": "toy"})
    return prepare_dataset(home, config.model_copy(update={"corpus": corpus}))


@pytest.mark.long
def test_tokens_are_matched_by_their_spelling(
    home: Home, tmp_path: Path, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    later = grown_dataset(home, tmp_path / "later", toy_config)
    shared = shared_tokens(later.tokenizer_folder, toy_run.model_folder)
    old, new = load_tokenizer(toy_run.model_folder), load_tokenizer(later.tokenizer_folder)
    assert later.vocabulary_size == toy_dataset.vocabulary_size + 2
    assert sorted(set(range(later.vocabulary_size)) - set(shared)) == sorted(new.encode("zebra admires"))
    assert any(new_id != old_id for new_id, old_id in shared.items())
    assert new.pieces(list(shared)) == old.pieces(list(shared.values()))


def started_from(home: Home, run: RunRecord, rows: int) -> StartedFrom:
    """Return a StartedFrom for the run, and copy the run's model into the rnnlm home."""
    start = StartedFrom(
        name="toy", version=1, model_sha256=model_digest(run.model_folder), token_rows_kept=rows, token_rows=rows
    )
    home.starts.mkdir()
    shutil.copytree(run.model_folder, start_folder(home, start))
    mark_complete(start_folder(home, start))
    return start


def test_a_damaged_copy_is_refused(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    start = started_from(home, toy_run, toy_dataset.vocabulary_size)
    weights = start_folder(home, start) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="model.safetensors differs from its sha256"):
        run_training(home, toy_config, toy_dataset, untracked, start=start)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model.hidden_size": 8}, "model.hidden_size differs (hidden_size is 8 and was 16)"),
        ({"model.layers": 2}, "model.layers differs (num_hidden_layers is 2 and was 1)"),
        ({"model.nonlinearity": "relu"}, "model.nonlinearity differs (nonlinearity is relu and was tanh)"),
        ({"model.tie_embeddings": True}, "model.tie_embeddings differs (tie_word_embeddings is True and was False)"),
        ({"model.embedding_size": 8}, "model.embedding_size differs (embedding_size is 8 and was 16)"),
        ({"model.input": "one-hot"}, "model.input differs (one_hot is True and was False)"),
        ({"model.residual": True}, "model.residual differs (residual is True and was False)"),
        (
            {"model.recurrence": "diagonal", "model.recurrent_initialization": "spread"},
            "model.recurrence differs (diagonal is True and was False)",
        ),
        ({"model.backend": "loop"}, None),  # The backend may differ, because both backends compute the same function.
        # The earlier model's weights replace the initial weights, so the initialization may differ.
        ({"model.recurrent_initialization": "identity"}, None),
    ],
)
def test_another_architecture_is_refused(
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    settings: dict[str, object],
    told: str | None,
) -> None:
    config = changed(toy_config, settings)
    assert find_difference(config.model, toy_dataset.tokenizer_folder, toy_run.model_folder) == told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kind": "char"}, "tokenizer.kind is char and was word"),
        ({"kind": "word", "splitting": "punctuation"}, "tokenizer.splitting is punctuation and was whitespace"),
        ({"kind": "word", "unknown_literal": "UNK"}, "tokenizer.unknown_literal is UNK and was <unk>"),
        # The vocabulary may be smaller if the tokenizer is otherwise the same.
        ({"kind": "word", "minimum_count": 100}, None),
    ],
)
def test_another_way_to_split_text_is_refused(
    home: Home, toy_config: PipelineConfig, toy_run: RunRecord, settings: dict[str, object], told: str | None
) -> None:
    corpus = obtain_corpus(home, toy_config.corpus)
    tokenizer = train_tokenizer(home, corpus, TokenizerConfig.model_validate(settings))
    assert find_difference(toy_config.model, tokenizer.folder, toy_run.model_folder) == told


def test_the_run_id_depends_on_the_weights_and_not_on_their_name(
    toy_config: PipelineConfig, toy_dataset: DatasetRecord
) -> None:
    start = StartedFrom(name="toy", version=1, model_sha256="a" * 64, token_rows_kept=1, token_rows=1)
    by_alias = changed(toy_config, {"training.start_from": "champion"})
    by_number = changed(toy_config, {"training.start_from": "models:/toy/1"})
    plain = name_run(toy_config, toy_dataset)
    assert name_run(by_alias, toy_dataset) == plain
    warm = name_run(by_alias, toy_dataset, start)
    assert warm == name_run(by_number, toy_dataset, start) != plain
    other = start.model_copy(update={"model_sha256": "b" * 64})
    assert name_run(by_alias, toy_dataset, other) not in (plain, warm)
    longer = changed(by_alias, {"training.warm_start.epochs": 2})
    # A setting of warm starts does not affect a run from random weights.
    assert name_run(longer, toy_dataset) == plain
    assert name_run(longer, toy_dataset, start) != warm
    # training.epochs does not affect a warm start, which has its own number of epochs.
    assert name_run(changed(by_alias, {"training.epochs": 9}), toy_dataset, start) == warm


class Failing(UntrackedRun):
    """A tracker that raises an error at a given call. The error simulates a power failure.

    Call 0 is before the first step.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    @contextmanager
    def open(self, run_id: str) -> Iterator[Self]:
        if self.left == 0:
            raise RuntimeError("simulated power failure")
        yield self

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("simulated power failure")


@pytest.mark.parametrize("call", [0, 1, 8])
@pytest.mark.long
def test_stopping_a_run_changes_no_weight(
    home: Home, tmp_path: Path, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord, call: int
) -> None:
    """A warm start that stops and is resumed ends with the same weights as an uninterrupted one.

    The run stops before the first checkpoint (calls 0 and 1) or after it (call 8). The earlier model is deleted before
    the run is resumed, but its copy exists.
    """
    config = changed(toy_config, {"training.start_from": "champion", "training.warm_start.learning_rate": 1e-3})
    later = grown_dataset(home, tmp_path / "later", config)
    start = started_from(home, toy_run, later.vocabulary_size)
    whole = run_training(home, config, later, untracked, start=start)
    weights = (whole.model_folder / "model.safetensors").read_bytes()
    shutil.rmtree(whole.folder)
    shutil.rmtree(toy_run.folder)
    with pytest.raises(RuntimeError, match="simulated power failure"):
        run_training(home, config, later, Failing(call).open, start=start)
    folder = home.runs / whole.run_id
    assert bool(list(folder.glob("checkpoints/step-*"))) == (call == 8)
    assert find_unfinished(home, whole.run_id)[0] == config
    again = run_training(home, config, later, untracked, start=start)
    assert again.started_from == start
    assert (again.model_folder / "model.safetensors").read_bytes() == weights
    assert run_training(home, config, later, untracked, start=start) == again.model_copy(
        update={"skipped": True, "seconds": pytest.approx(0, abs=60)}
    )


def test_a_warm_start_has_its_own_budget_and_learning_rate(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    """A warm start uses the learning rate and length of training.warm_start.

    The resulting model equals the earlier model, because the learning rate is almost zero.
    """
    settings = {
        "training.epochs": 5,
        "training.warm_start.epochs": 2,
        "training.warm_start.maximum_tokens": 1_000,
        "training.warm_start.learning_rate": 1e-30,
    }
    start = started_from(home, toy_run, toy_dataset.vocabulary_size)
    run = run_training(home, changed(toy_config, settings), toy_dataset, untracked, start=start)
    # The number of tokens is approximate, because training ends after a whole batch.
    assert run.trained_tokens == pytest.approx(1_000, abs=300)
    assert model_digest(run.model_folder) == start.model_sha256


@pytest.mark.slow
def test_several_processes_start_from_the_same_weights(
    home: Home, toy_config: PipelineConfig, toy_dataset: DatasetRecord, toy_run: RunRecord
) -> None:
    settings = {"training.distributed.processes": 2, "training.warm_start.learning_rate": 1e-30}
    start = started_from(home, toy_run, toy_dataset.vocabulary_size)
    run = run_training(home, changed(toy_config, settings), toy_dataset, untracked, start=start)
    assert model_digest(run.model_folder) == start.model_sha256
