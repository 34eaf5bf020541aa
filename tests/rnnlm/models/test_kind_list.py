"""All kinds of models pass through every stage up to a bundle, including n-gram models and custom layers."""

import shutil
import sys
from pathlib import Path
from typing import get_args

import pytest

from rnnlm.config import ModelConfig, ModelKind, PipelineConfig
from rnnlm.config.kinds import KINDS, NETWORKS
from rnnlm.errors import ConfigError, ModelError
from rnnlm.evaluation.document_losses import document_losses
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.extensions.exports.hugging_face import RnnlmConfig, RnnlmForCausalLM
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_ids
from rnnlm.models.model_factory import build_model, check_kind, load_model
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.storage.home import Home, read_json, write_json
from rnnlm.storage.records import DatasetRecord
from rnnlm.tokenizers.text_tokenizer import load_tokenizer
from rnnlm.training.training_run import run_training
from tests.configs import changed
from tests.conftest import untracked
from tests.reference_log_probabilities import log_probabilities_of
from tests.registrar import Registrar
from tests.rnnlm.conftest import Storyteller

OWN_CELL = '''
import torch
from torch import nn

from rnnlm.models.cell import Cell


class Leaky(Cell):
    """h' = (h + tanh(x W)) / 2."""

    def __init__(self, input_size, hidden_size):
        super().__init__(hidden_size, hidden_size)
        self.W = nn.Parameter(torch.empty(input_size, hidden_size))

    def step(self, x, state):
        state = (state + torch.tanh(x @ self.W)) / 2
        return state, state
'''


def test_the_type_names_every_network() -> None:
    assert get_args(ModelKind) == NETWORKS
    assert set(KINDS) - set(NETWORKS) == {"kneser-ney"}


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("elmann", "did you mean elman"), ("nothing like it", "package.module:Class"), ("a:b:c", "a:b:c")],
)
def test_a_wrong_kind_gets_a_suggestion(kind: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        ModelConfig(kind=kind)


def test_counts_alone_need_an_order() -> None:
    with pytest.raises(ValueError, match="counts from 1 to 5"):
        ModelConfig(kind="kneser-ney", counts=0)


@pytest.mark.long
def test_counts_alone_are_a_model_like_any_other(register: Registrar) -> None:
    """An n-gram model without a network is trained in one pass, evaluated, sampled from and registered.

    The score of the run is the score of the n-gram model.
    """
    candidate = with_model(register, {"model.kind": "kneser-ney", "model.counts": 3})
    score = candidate.evaluation.scores["test"]
    assert (score.model, score.network, score.counts) == ("3-gram counts", None, None)
    folder = candidate.run.model_folder
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    assert model.mixture is not None
    assert model.mixture.is_alone
    (loss,) = document_losses(model, tokenizer, ["the cat sees the dog"], read_training_provenance(folder).cut)
    ids = [2, *tokenizer.encode("the cat sees the dog"), 3]
    expected = [-float(row[target]) for row, target in zip(log_probabilities_of(model, ids[:-1]), ids[1:], strict=True)]
    assert loss.nll_nats.tolist() == pytest.approx(expected, rel=1e-5)
    greedy = continue_ids(InferenceWeights(model), ids[:3], Sampling(maximum_tokens=5, temperature=0), 3)
    assert greedy[0] == int(log_probabilities_of(model, ids[:3])[-1].argmax())
    assert candidate().alias == "champion"
    with pytest.raises(Exception, match="no network"):
        RnnlmForCausalLM(RnnlmConfig(**model.config))


@pytest.mark.long
def test_an_own_layer_becomes_champion_and_works_without_rnnlm(
    register: Registrar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with a custom layer becomes champion, and its bundle can be loaded without rnnlm.

    Registration loads the bundle in a process in which rnnlm and the layer's module cannot be imported.
    """
    (tmp_path / "leaky_cells.py").write_text(OWN_CELL)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = {"model.kind": "leaky_cells:Leaky"}
    candidate = with_model(register, settings)
    assert candidate().alias == "champion"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("nothing_there:Cell", "nothing_there"),
        ("rnnlm.models.cell:Nothing", "Nothing"),
        ("subprocess:Popen", "not a Cell"),
    ],
)
def test_a_class_that_is_not_a_layer_is_refused(kind: str, told: str, storyteller: Storyteller, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        check_kind(kind)
    shutil.copytree(storyteller.folder, tmp_path / "model")
    write_json(tmp_path / "model" / "config.json", read_json(storyteller.folder / "config.json") | {"kind": kind})
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(tmp_path / "model")


def test_an_own_layer_is_imported_again_only_where_it_was_trained(
    toy_dataset: DatasetRecord,
    toy_config: PipelineConfig,
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later process imports a custom layer automatically only in the rnnlm home where it was trained.

    In another home, the user must name the module.
    """
    (tmp_path / "later_cells.py").write_text(OWN_CELL)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = changed(toy_config, {"model.kind": "later_cells:Leaky"})
    folder = run_training(home, config, toy_dataset, untracked).model_folder
    monkeypatch.delitem(sys.modules, "later_cells")
    load_model(folder)

    def elsewhere() -> None:
        sys.modules.pop("later_cells")
        monkeypatch.setenv("RNNLM_HOME", str(tmp_path / "other"))

    elsewhere()
    with pytest.raises(ModelError, match="later_cells:Leaky.*\n.*RNNLM_OWN_LAYERS=later_cells:Leaky"):
        load_model(folder)
    assert "later_cells" not in sys.modules
    monkeypatch.setenv("RNNLM_OWN_LAYERS", "some.other:Layer, later_cells:Leaky")
    load_model(folder)


def test_a_custom_layer_with_unknown_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other_cells.py").write_text(OWN_CELL.replace("self.W", "self.V"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"initialize\(weights\)"):
        build_model(ModelConfig(kind="other_cells:Leaky", hidden_size=4), 10, seed=0)


def with_model(register: Registrar, settings: dict[str, object]) -> Registrar:
    """Train and evaluate another model on the same text, and return the object that registers it."""
    home, dataset = register.home, register.dataset
    config = changed(register.config, settings)
    run = run_training(home, config, dataset, untracked)
    return Registrar(home, config, dataset, run, evaluate_run(home, dataset, run, config.evaluation), register.samples)
