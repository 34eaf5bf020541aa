"""Fixtures with a corpus of many validation documents, and with models whose losses differ significantly."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord
from tests.built_once import built_once
from tests.conftest import copy_home, copy_store, home_in, untracked
from tests.rnnlm.registry.contest import Contest, contest_config, write_contest_corpus


@pytest.fixture(scope="session")
def contest_template(tmp_path_factory: pytest.TempPathFactory) -> Contest:
    """Return a contest of models for which all stages before registration are finished."""
    return built_once(tmp_path_factory, contest_stages)


def contest_stages(folder: Path) -> Contest:
    from rnnlm.corpora.download import obtain_corpus
    from rnnlm.evaluation.perplexity import evaluate_run
    from rnnlm.generation.generate import generate_samples
    from rnnlm.sequences.dataset_writer import store_sequences
    from rnnlm.tokenizers.tokenizer_training import train_tokenizer
    from rnnlm.training.training_run import run_training

    home = Home(folder / "home")
    write_contest_corpus(folder / "corpus")
    config = contest_config(folder / "corpus")
    corpus = obtain_corpus(home, config.corpus)
    tokenizer = train_tokenizer(home, corpus, config.tokenizer)
    dataset = store_sequences(home, corpus, tokenizer, config.sequences)
    run = run_training(home, config, dataset, untracked)
    evaluation = evaluate_run(home, dataset, run, config.evaluation)
    return Contest(home, config, dataset, run, evaluation, generate_samples(home, dataset, run, config.generation))


@pytest.fixture
def contest(tracked_home: Home, contest_template: Contest, decided_template: Contest) -> Contest:
    """Return the contest in the rnnlm home of this test, with an empty registry.

    decided_template has already checked the bundles of the contest's models.
    """
    return contest_in(tracked_home, contest_template)


@pytest.fixture(scope="session")
def decided_template(
    tmp_path_factory: pytest.TempPathFactory, mlflow_template: Path, contest_template: Contest
) -> Contest:
    """Return a contest in which three models were registered.

    "poor" was the first champion, "good" replaced it, and "fair" did not replace "good".
    """

    def decided_contest(folder: Path) -> tuple[Contest, set[str]]:
        with home_in(folder) as home:
            copy_store(home, mlflow_template)
            contest = contest_in(home, contest_template)
            for quality in ("poor", "good", "fair"):
                contest.register(quality)
            return contest, bundle_check.CHECKED

    from rnnlm.registry import bundle_check

    contest, checked = built_once(tmp_path_factory, decided_contest)
    # Mark the bundles as checked, so that not every test process checks them again.
    bundle_check.CHECKED.update(checked)
    return contest


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, decided_template: Contest) -> Iterator[Contest]:
    """Yield the decided contest for all tests of a file. The tests must not change it."""
    with home_in(tmp_path_factory.mktemp("decided")) as home:
        copy_home(decided_template.home, home)
        yield contest_in(home, decided_template, copied=True)


def contest_in(home: Home, template: Contest, *, copied: bool = False) -> Contest:
    """Return the contest in another rnnlm home. If `copied` is true, this home already contains the files."""
    if not copied:
        shutil.copytree(template.home.root, home.root, dirs_exist_ok=True)

    def moved(folder: Path) -> Path:
        return home.root / folder.relative_to(template.home.root)

    dataset: DatasetRecord = template.dataset.model_copy(update={"folder": moved(template.dataset.folder)})
    run: RunRecord = template.run.model_copy(update={"folder": moved(template.run.folder)})
    return Contest(home, template.config, dataset, run, template.evaluation, template.samples)
