"""A toy corpus and the output of every stage on it, which are created once per session and copied for each test."""

import functools
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from rnnlm.config import PipelineConfig, SequencesConfig
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, DatasetRecord, RunRecord, StageRecord, TokenizerRecord
from rnnlm.storage.result_records import EvaluationRecord, SamplesRecord
from rnnlm.tracking.stored_locations import move_locations
from tests.built_once import built_once
from tests.configs import plain_config, plain_model, plain_training
from tests.registrar import Registrar

# Hypothesis uses the same examples in every run, so that no failure is due to chance.
settings.register_profile("deterministic", derandomize=True, database=None, deadline=None)
settings.load_profile("deterministic")

# torch reads OMP_NUM_THREADS when it is imported. Threads that wait for each other are slow on a busy machine, where
# training the toy model would take 16 s instead of 0.6 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Triton reads TRITON_INTERPRET when it is imported. Without a GPU, Triton's interpreter runs the kernels.
if not (Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi")):
    os.environ.setdefault("TRITON_INTERPRET", "1")
USER_SETTINGS = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILE")
Chain = dict[str, StageRecord]


class OneProcessPerFile(LoadFileScheduling):
    """A scheduler that runs the tests of a file in one process, and all files that need Prefect in the same process.

    Hence the tests share a single Prefect server.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of_file(nodeid.partition("::")[0])


@functools.cache
def scope_of_file(name: str) -> str:
    """Return a name that is the same for all files whose tests run in one process. `name` is a file's path."""
    text = (Path(__file__).resolve().parent.parent / name).read_text(encoding="utf-8")
    return "prefect" if '"prefect_server"' in text or "prefect_server: None" in text else name


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneProcessPerFile:
    # pytest-xdist 3.8 does not group tests with pytest 9.2, so --dist loadgroup cannot be used.
    return OneProcessPerFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the test files directly in tests/ first, because they take minutes."""
    items.sort(key=lambda item: item.path.parent != Path(__file__).resolve().parent)


@contextmanager
def home_in(folder: Path) -> Iterator[Home]:
    """Yield a new rnnlm home in the folder, without settings from the user's environment."""
    with pytest.MonkeyPatch.context() as environment:
        for name in USER_SETTINGS:
            environment.delenv(name, raising=False)
        environment.setenv("RNNLM_HOME", str(folder / "home"))
        yield Home(folder / "home")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Yield a new rnnlm home for one test."""
    with home_in(tmp_path) as home:
        yield home


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty MLflow store with the current schema. Tests copy it, because its creation takes seconds."""
    return built_once(tmp_path_factory, mlflow_database)


def mlflow_database(folder: Path) -> Path:
    from rnnlm.tracking.mlflow_store import make_database

    template = Home(folder)
    make_database(template)
    return template.mlflow_database


@pytest.fixture
def tracked_home(home: Home, mlflow_template: Path) -> Home:
    """Return the test's rnnlm home with an empty MLflow store in it."""
    copy_store(home, mlflow_template)
    return home


def copy_store(home: Home, mlflow_template: Path) -> None:
    home.artifacts.mkdir(parents=True, exist_ok=True)
    shutil.copy(mlflow_template, home.mlflow_database)
    move_locations(home.mlflow_database, mlflow_template.parent, home.root)


def write_toy_corpus(folder: Path) -> Path:
    """Write sentences of a tiny grammar, which is easy to learn. The text is the same on every machine."""
    draw = random.Random(0)
    animals, verbs, places = ["cat", "dog", "bird", "fox"], ["sees", "likes", "follows"], ["house", "tree", "river"]
    folder.mkdir(parents=True)
    for split, count in (("train", 300), ("valid", 40), ("test", 40)):
        lines = [
            f"the {draw.choice(animals)} {draw.choice(verbs)} the {draw.choice(animals)} "
            f"near the {draw.choice(places)} ."
            for _ in range(count)
        ]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def toy_pipeline_config(folder: Path) -> PipelineConfig:
    return plain_config(
        {
            "corpus.source": str(folder),
            "tokenizer.vocabulary_size": 200,
            "model.hidden_size": 16,
            "training.device": "cpu",
            "generation.prompts": ["the cat"],
            "generation.maximum_tokens": 8,
        }
    )


@pytest.fixture
def toy_folder(tmp_path: Path) -> Path:
    return write_toy_corpus(tmp_path / "toy")


@pytest.fixture
def toy_config(toy_folder: Path) -> PipelineConfig:
    return toy_pipeline_config(toy_folder)


class UntrackedRun:
    """A tracker that sends nothing. Training uses such a tracker if MLflow is unavailable."""

    mlflow_run_id: str | None = None

    def __call__(self) -> None: ...

    def flush(self) -> None: ...

    @contextmanager
    def open(self, run_id: str) -> Iterator[Self]:
        """Return the tracker, for tests that replace tracking.open_tracker by this method."""
        yield self


untracked = UntrackedRun().open


@pytest.fixture(scope="session")
def chain_template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Chain]:
    """Run every stage except registration, and return the rnnlm home and the results."""
    return built_once(tmp_path_factory, toy_stages)


def toy_stages(folder: Path) -> tuple[Home, Chain]:
    from rnnlm.corpora.download import obtain_corpus
    from rnnlm.evaluation.perplexity import evaluate_run
    from rnnlm.generation.generate import generate_samples
    from rnnlm.sequences.dataset_writer import store_sequences
    from rnnlm.tokenizers.tokenizer_training import train_tokenizer
    from rnnlm.training.samples import write_samples
    from rnnlm.training.training_run import run_training

    home = Home(folder / "home")
    config = toy_pipeline_config(write_toy_corpus(folder / "toy"))
    corpus = obtain_corpus(home, config.corpus)
    tokenizer = train_tokenizer(home, corpus, config.tokenizer)
    dataset = store_sequences(home, corpus, tokenizer, config.sequences)
    run = run_training(home, config, dataset, untracked, write_samples=write_samples)
    chain: Chain = {
        "corpus": corpus,
        "tokenizer": tokenizer,
        "dataset": dataset,
        "run": run,
        "evaluation": evaluate_run(home, dataset, run, config.evaluation),
        "samples": generate_samples(home, dataset, run, config.generation),
    }
    return home, chain


@pytest.fixture
def toy_chain(home: Home, chain_template: tuple[Home, Chain]) -> Chain:
    """Return the session's results, copied to this test's rnnlm home."""
    return copy_chain(home, chain_template)


def copy_chain(home: Home, chain_template: tuple[Home, Chain]) -> Chain:
    template, chain = chain_template
    shutil.copytree(template.root, home.root, dirs_exist_ok=True)

    def moved(record: StageRecord) -> StageRecord:
        folder = getattr(record, "folder", None)
        if folder is None:
            return record
        return record.model_copy(update={"folder": home.root / folder.relative_to(template.root)})

    return {name: moved(record) for name, record in chain.items()}


@pytest.fixture
def toy_corpus(toy_chain: Chain) -> CorpusRecord:
    return CorpusRecord.model_validate(toy_chain["corpus"])


@pytest.fixture
def toy_tokenizer(toy_chain: Chain) -> TokenizerRecord:
    return TokenizerRecord.model_validate(toy_chain["tokenizer"])


@pytest.fixture
def toy_dataset(toy_chain: Chain) -> DatasetRecord:
    return DatasetRecord.model_validate(toy_chain["dataset"])


@pytest.fixture
def toy_run(toy_chain: Chain) -> RunRecord:
    return RunRecord.model_validate(toy_chain["run"])


@pytest.fixture
def toy_evaluation(toy_chain: Chain) -> EvaluationRecord:
    return EvaluationRecord.model_validate(toy_chain["evaluation"])


@pytest.fixture
def toy_samples(toy_chain: Chain) -> SamplesRecord:
    return SamplesRecord.model_validate(toy_chain["samples"])


@pytest.fixture
def register(
    tracked_home: Home,
    toy_config: PipelineConfig,
    toy_dataset: DatasetRecord,
    toy_run: RunRecord,
    toy_evaluation: EvaluationRecord,
    toy_samples: SamplesRecord,
) -> Registrar:
    """Return a function that registers the toy run.

    The toy corpus is too small for a second version to become champion.
    """
    return Registrar(tracked_home, toy_config, toy_dataset, toy_run, toy_evaluation, toy_samples)


@pytest.fixture(scope="session")
def registry_template(
    tmp_path_factory: pytest.TempPathFactory, chain_template: tuple[Home, Chain], mlflow_template: Path
) -> Home:
    """Return an rnnlm home in which the toy run is registered as version 1 and champion."""

    def toy_registry(folder: Path) -> tuple[Home, set[str]]:
        with home_in(folder) as home:
            copy_store(home, mlflow_template)
            toy_registrar(home, chain_template)()
            return home, bundle_check.CHECKED

    from rnnlm.registry import bundle_check

    home, checked = built_once(tmp_path_factory, toy_registry)
    # The bundle is marked as checked, so that this test process does not check it again.
    bundle_check.CHECKED.update(checked)
    return home


def toy_registrar(home: Home, chain_template: tuple[Home, Chain]) -> Registrar:
    """Copy the session's results to the rnnlm home, and return the object that registers their run."""
    records: dict[str, Any] = copy_chain(home, chain_template)
    del records["corpus"], records["tokenizer"]
    return Registrar(home, toy_pipeline_config(chain_template[0].root.parent / "toy"), **records)


@pytest.fixture
def registered(register: Registrar, registry_template: Home) -> Registrar:
    """Return the object that registers the toy run, after version 1 of the run has become champion."""
    copy_home(registry_template, register.home)
    return register


def copy_home(template: Home, home: Home) -> None:
    """Copy an rnnlm home with its MLflow store to another home."""
    from mlflow.tracking._tracking_service import utils

    shutil.copytree(template.root, home.root, dirs_exist_ok=True)
    move_locations(home.mlflow_database, template.root, home.root)
    # MLflow caches the folder of each model id. The copies have the same ids in other folders.
    utils._artifact_repos_cache.clear()


@pytest.fixture(scope="session")
def stream_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model of two layers that has learned the toy corpus's grammar in stream mode."""
    return built_once(tmp_path_factory, stream_model)


def stream_model(folder: Path) -> Path:
    from rnnlm.sequences.dataset_writer import prepare_dataset
    from rnnlm.training.training_run import run_training

    home = Home(folder / "home")
    changes: dict[str, object] = {
        "sequences": SequencesConfig(mode="stream"),
        "model": plain_model({"hidden_size": 16, "layers": 2}),
        "training": plain_training({"epochs": 20, "batch_size": 8, "device": "cpu"}),
    }
    config = toy_pipeline_config(write_toy_corpus(folder / "toy")).model_copy(update=changes)
    return run_training(home, config, prepare_dataset(home, config), untracked).model_folder


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Start one temporary Prefect server for the tests that run a flow or publish an artifact."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield
