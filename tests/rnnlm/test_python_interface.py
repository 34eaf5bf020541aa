"""`rnnlm.train` and `rnnlm.load` reject wrong arguments with advice. The import of rnnlm takes little time."""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rnnlm
from rnnlm.config.presets import SHORT_SETTINGS, build_config
from rnnlm.errors import ConfigError, CorpusError, HomeError, ModelError, RnnlmError
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.trained_model import SAMPLING_SETTINGS, SCORE_COLUMNS
from tests.conftest import write_toy_corpus
from tests.registrar import Registrar

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "mlflow", "prefect", "pandas", "transformers", "duckdb")


def test_importing_it_imports_nothing_heavy() -> None:
    program = (
        "import json, sys, rnnlm\n"
        "assert {'train', 'load', 'Model'} <= set(dir(rnnlm))\n"
        f"light = [name for name in {HEAVY} if name in sys.modules]\n"
        "rnnlm.train, rnnlm.load\n"
        f"print(json.dumps([light, [name for name in {HEAVY} if name in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []]


def test_the_reference_names_every_method_parameter_and_column() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    methods = {name: value for name, value in vars(rnnlm.Model).items() if not name.startswith("_")}
    names = {*methods, *inspect.signature(rnnlm.train).parameters, *inspect.signature(rnnlm.load).parameters}
    calls = {name: method for name, method in methods.items() if inspect.isfunction(method)}
    names |= {name for method in calls.values() for name in inspect.signature(method).parameters} - {"self"}
    names |= {*SCORE_COLUMNS, *SAMPLING_SETTINGS, *SHORT_SETTINGS}
    assert len(names) > 25
    assert sorted(name for name in names if not re.search(rf"`[^`]*\b{name}\b[^`]*`", page)) == []


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        rnnlm.lode  # noqa: B018


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"minutes": 2, "hidden_size": 64}, ["training.minutes=2", "model.hidden_size=64"]),
        ({"training.optimizer.learning_rate": 0.002}, ["training.optimizer.learning_rate=0.002"]),
        ({"training.optimizer.learning_rate": "2e-3"}, ["training.optimizer.learning_rate=0.002"]),
        ({"model": {"kind": "lstm", "layers": 2}}, ["model.kind=lstm", "model.layers=2"]),
        ({"promote": "never", "training": {"epochs": None}}, ["registry.promote=never", "training.epochs=null"]),
        ({"generation.prompts": ["a", "b"]}, ["generation.prompts=[a, b]"]),
    ],
)
def test_settings_are_those_of_the_command_line(given: dict[str, Any], options: list[str]) -> None:
    assert build_config("default", settings=given, corpus="x") == build_config("default", options, "x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 2}, "unknown setting 'epoch'; did you mean epochs?"),
        ({"kind": "lstm"}, "unknown setting 'kind'; did you mean .*model.kind"),
        ({"zzz": 1}, "unknown setting 'zzz'; expected section.field, a section or one of minutes, epochs"),
        ({"model.kinds": "lstm"}, "model.kinds: unknown field 'kinds'; did you mean .*model.kind"),
        ({"model": {"hidden_sise": 8}}, "unknown field 'hidden_sise'; did you mean model.hidden_size"),
        ({"minutes": 0}, "training.minutes: expected more than 0"),
        ({"minutes": -1.5}, "training.minutes: expected more than 0"),
        ({"minutes": "soon"}, "training.minutes: expected a number"),
        ({"preset": "smok"}, "unknown preset 'smok'; did you mean smoke?"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_wrong_setting_is_named_before_anything_starts(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    (tmp_path / "text.txt").write_text("a b\n" * 99)
    with pytest.raises(ConfigError, match=message):
        rnnlm.train(tmp_path / "text.txt", **settings)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rnnlm.train("missing.txt"), CorpusError, "missing.txt: no such file or folder"),
        (lambda: rnnlm.train(3), ConfigError, "source: expected a text or a path, got int"),  # type: ignore[arg-type]
        (lambda: rnnlm.train(""), ConfigError, "source: expected a text or a path, got ''"),
        (lambda: rnnlm.load("rnnlm-notes"), HomeError, "there is no rnnlm home here, so there are no models"),
        (lambda: rnnlm.load(home="/no/such/home"), HomeError, "/no/such/home: there is no rnnlm home"),
        (lambda: rnnlm.load(b"x"), ConfigError, "model: expected a text or a path, got bytes"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_not_there_is_refused(call: Callable[[], Any], error: type[RnnlmError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.usefixtures("home")
def test_an_empty_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(CorpusError, match="empty"):
        rnnlm.train(tmp_path / "empty.txt")


def test_a_folder_without_a_model_is_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a model"):
        rnnlm.load(tmp_path, home=home.root)


def test_a_run_is_loaded_by_id_beginning_or_folder(home: Home, toy_run: RunRecord) -> None:
    text = "the cat sees the dog"
    names = (toy_run.run_id, toy_run.run_id[:5], toy_run.folder, str(toy_run.model_folder))
    assert len({rnnlm.load(name).perplexity(text) for name in names}) == 1
    assert len({rnnlm.load(name, home=home.root).folder for name in names}) == 1


@pytest.mark.long
def test_a_registered_model_is_loaded_by_each_of_its_names(registered: Registrar) -> None:
    registered()
    names = (
        None,
        "rnnlm-toy",
        "rnnlm-toy@champion",
        "rnnlm-toy/1",
        "models:/rnnlm-toy@champion",
        "models:/rnnlm-toy/1",
    )
    models = [rnnlm.load(name) for name in names]
    assert {model.name for model in models} == {"models:/rnnlm-toy/1"}
    score = registered.evaluation.scores["test"]
    assert models[0].test.perplexity == score.perplexity
    assert repr(models[0]).endswith(f"mixed with 5-gram counts, test perplexity {score.perplexity:.2f}>")
    with pytest.raises(ModelError, match="rnnlm-tey: no model, run or folder of this name(.|\n)*registered: rnnlm-toy"):
        rnnlm.load("rnnlm-tey")
    with pytest.raises(ModelError, match="no such version"):
        rnnlm.load("rnnlm-toy/7")


@pytest.mark.long
def test_a_trained_model_is_registered_without_prefect(tmp_path: Path) -> None:
    """`rnnlm.train` registers a model without Prefect, in a separate process. A second call finds all results."""
    corpus = write_toy_corpus(tmp_path / "toy")
    program = (
        "import sys, rnnlm\n"
        f"call = dict(home={str(tmp_path / 'home')!r}, epochs=2, hidden_size=16, tokenizer={{'kind': 'word'}})\n"
        f"model = rnnlm.train({str(corpus)!r}, **call)\n"
        f"again = rnnlm.train({str(corpus)!r}, **call)\n"
        "assert repr(again) == repr(model)\n"
        "assert 'prefect' not in sys.modules\n"
        "print(model.name, model.generate('the cat', n=2, seed=3) == again.generate('the cat', n=2, seed=3))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RNNLM", "MLFLOW"))}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "models:/rnnlm-toy/1 True\n"
    assert not (tmp_path / ".rnnlm").exists()
