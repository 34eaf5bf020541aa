"""Pruning keeps the items that aliases need and removes the others. Kills and concurrent runs lose no needed item."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rnnlm.extensions.upkeep.inventory import take_inventory
from rnnlm.extensions.upkeep.prune import prune_home, remove_item
from rnnlm.extensions.upkeep.retention import by_name, rollback_chain
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from rnnlm.registry.model_lookup import model_folder
from rnnlm.registry.promotion_commands import roll_back
from rnnlm.registry.stored_versions import Item, Key, read_store
from rnnlm.storage.home import Home, write_json
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.stages import COMPLETE, is_complete, write_once
from rnnlm.tracking.mlflow_store import reaching_mlflow
from tests.rnnlm.extensions.upkeep.registry_histories import (
    age_versions,
    check_aliases,
    make_older,
    random_history,
    register_night,
    write_folder,
)
from tests.rnnlm.registry.contest import NAME, Contest

STRICT = RetentionConfig(versions=1, champions=1, datasets=1, days=0)


def chains(home: Home) -> dict[str, list[int]]:
    return {
        name: rollback_chain(
            versions, next((one.number for one in versions if "champion" in one.aliases), None), STRICT.champions
        )
        for name, versions in by_name(read_store(home).versions).items()
    }


def without_locks(home: Home) -> dict[Key, Item]:
    return {key: item for key, item in take_inventory(home).items.items() if item.kind != "lock"}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.long
def test_never_removes_what_a_registered_alias_needs(tracked_home: Home, seed: int) -> None:
    random_history(tracked_home, seed)
    held, before = check_aliases(tracked_home), chains(tracked_home)
    pruned = prune_home(tracked_home, STRICT)
    assert check_aliases(tracked_home) == held
    assert chains(tracked_home) == before
    living = read_store(tracked_home)
    assert names_in(tracked_home.runs) == {version.facts["run_id"] for version in living.versions}
    assert {item.name for item in living.items if item.kind == "model"} == {
        version.facts["logged_model_id"] for version in living.versions
    }
    assert len(names_in(tracked_home.artifacts / "experiments" / "models")) == len(living.versions)
    assert {item.kind for item in pruned.removed} >= {"version", "model", "run", "mlflow-run", "dataset", "corpus"}
    assert prune_home(tracked_home, STRICT).removed == ()
    for name, chain in before.items():
        if chain:
            assert roll_back(tracked_home, name).version == chain[0]
    check_aliases(tracked_home)


def test_a_stored_start_is_kept_while_it_is_needed(home: Home) -> None:
    """The stored choice of the initial model is kept as long as the dataset may be used again.

    Without it, an unchanged nightly run would start from the new champion and train again.
    """
    weights = {name: f"{name:0<64}" for name in ("decided", "begun", "done", "forgotten")}
    for sha256 in weights.values():
        write_folder(home.starts / sha256[:16], age_days=50, config={})
    write_folder(home.datasets / "kept", 50, dataset={"corpus_name": "a", "corpus_digest": ""})
    for dataset, name in (("kept", "decided"), ("gone", "forgotten")):
        decision = {"dataset_id": dataset, "start": {"model_sha256": weights[name]}}
        write_json_once(home, home.starts / f"{dataset}.json", "key", lambda decision=decision: decision)
    for run, name in (("unfinished", "begun"), ("finished", "done")):
        folder = write_folder(
            home.runs / run, 20, started={"dataset_id": "kept", "started_from": {"model_sha256": weights[name]}}
        )
        if run == "unfinished":
            (folder / COMPLETE).unlink()
        make_older(folder, 20)
    make_older(home.starts, 50)
    prune_home(home, RetentionConfig(days=30))
    assert names_in(home.runs) == {"unfinished", "finished"}
    assert names_in(home.starts) == {"kept.json", weights["decided"][:16], weights["begun"][:16]}


@pytest.mark.long
def test_a_dry_run_removes_nothing_and_reports_what_a_run_then_removes(tracked_home: Home) -> None:
    random_history(tracked_home, seed=4, nights=5)
    before = without_locks(tracked_home)
    planned = prune_home(tracked_home, STRICT.model_copy(update={"dry_run": True}))
    assert planned.removed
    assert without_locks(tracked_home) == before
    removed = prune_home(tracked_home, STRICT)
    assert [item.key for item in removed.removed] == [item.key for item in planned.removed]
    assert [total.removed_bytes for total in removed.totals] == [total.removed_bytes for total in planned.totals]


def test_a_home_without_a_registry_is_pruned_too(home: Home) -> None:
    write_folder(home.datasets / "d1", 50, dataset={"corpus_name": "news", "corpus_digest": "c" * 64})
    write_folder(home.datasets / "d2", 40, dataset={"corpus_name": "news", "corpus_digest": "c" * 64})
    write_folder(home.corpora / ("c" * 16), 50, corpus={})
    write_folder(home.corpora / ("e" * 16), 50, corpus={})
    pruned = prune_home(home, STRICT)
    assert [item.name for item in pruned.removed] == ["d1", "e" * 16]
    assert not home.mlflow_database.exists()


@pytest.mark.long
def test_versions_and_runs_of_other_programs_stay(tracked_home: Home) -> None:
    with reaching_mlflow(tracked_home) as client:
        experiment = client.create_experiment("theirs", artifact_location=tracked_home.artifacts.as_uri())
        run = client.create_run(experiment, start_time=1_000).info.run_id
        client.set_terminated(run, end_time=2_000)
        client.create_registered_model("theirs")
        for _ in range(3):
            client.create_model_version("theirs", "file:///elsewhere")
        assert prune_home(tracked_home, STRICT).removed == ()
        assert client.get_run(run).info.lifecycle_stage == "active"
        assert len(client.search_model_versions("name = 'theirs'")) == 3


@pytest.mark.long
def test_a_real_champion_and_the_one_before_load_after_pruning(contest: Contest) -> None:
    for quality in ("poor", "good", "fair"):
        contest.register(quality)
    contest.register("fair", force=True)
    contest.register("fair", force=True)
    home = contest.home
    for folder in (home.runs, home.datasets, home.corpora):
        make_older(folder, 50)
    age_versions(home, 50)
    pruned = prune_home(home, STRICT)
    assert pruned.kept == {
        f"{NAME}/1": "champion before",
        f"{NAME}/2": "alias champion",
        f"{NAME}/5": "alias challenger",
    }
    for reference in (f"{NAME}@champion", f"{NAME}@challenger", f"{NAME}/1"):
        assert model_folder(home, reference).is_dir()
    assert contest.dataset.folder.is_dir()
    evidence = contest.register("fair", force=True).evidence
    assert evidence is not None
    # This comparison with champion 2 has the number 4, although two of the compared versions have been removed.
    assert evidence.comparison == 4
    assert roll_back(home, NAME).version == 1


@pytest.mark.slow
def test_the_database_shrinks(tracked_home: Home) -> None:
    register_night(tracked_home, "rnnlm-a", "keep", 0)
    for night in range(4):
        register_night(tracked_home, "rnnlm-b", f"n{night}", 50)
    with reaching_mlflow(tracked_home) as client:
        for run in client.search_runs(["1"], "tags.`rnnlm.run_id` = 'rn0'"):
            client.set_tag(run.info.run_id, "long", "x" * 5_000)
            for step in range(300):
                client.log_param(run.info.run_id, f"p{step}", "y" * 4_000)
    age_versions(tracked_home, 50)
    before = tracked_home.mlflow_database.stat().st_size
    prune_home(tracked_home, STRICT)
    assert tracked_home.mlflow_database.stat().st_size < before - 300 * 4_000 / 2


def test_a_stage_that_skipped_during_the_prune_keeps_its_output(home: Home) -> None:
    """An output that a stage reuses during a prune is kept, although the prune's inventory counted it as unused."""
    final = home.corpora / ("c" * 16)
    write_once(home, final, lambda partial: write_json(partial / "corpus.json", {}))
    make_older(final, 50)
    item = take_inventory(home).items["corpus", final.name]
    assert write_once(home, final, lambda partial: pytest.fail("it exists"))
    assert not remove_item(home, item)
    assert is_complete(final)
    assert remove_item(home, take_inventory(home).items["corpus", final.name])
    assert not final.exists()


def test_what_its_writer_locks_stays(home: Home) -> None:
    run = write_folder(home.runs / "r1", 50, started={"dataset_id": "d1"})
    item = take_inventory(home).items["run", "r1"]
    script = (
        "import sys; from pathlib import Path; from rnnlm.storage.home import Home\n"
        f"with Home(Path({str(home.root)!r})).lock('run-r1'): print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert not remove_item(home, item)
        assert run.exists()
        assert other.stdin is not None
        other.stdin.close()
    assert remove_item(home, item)


def test_what_a_refused_item_needs_stays_too(home: Home) -> None:
    """The corpus of a dataset is kept if a process has locked the dataset, so that the dataset cannot be removed."""
    write_folder(home.datasets / "d1", 50, dataset={"corpus_name": "a", "corpus_digest": "c" * 64})
    write_folder(home.datasets / "d2", 40, dataset={"corpus_name": "a", "corpus_digest": "e" * 64})
    write_folder(home.corpora / ("c" * 16), 50, corpus={})
    write_folder(home.corpora / ("e" * 16), 50, corpus={})
    with home.lock("datasets-d1"):
        assert prune_home(home, STRICT).removed == ()
    assert [item.kind for item in prune_home(home, STRICT).removed] == ["dataset", "corpus"]


def test_leftovers_of_killed_processes_go_and_a_folder_set_aside_comes_back(home: Home) -> None:
    write_folder(home.datasets / ".d1.0a1b2c3d", 50)
    # A process was killed after it renamed r1 and before it wrote the replacement.
    write_folder(home.runs / ".r1.replaced", 50, run={})
    write_folder(home.runs / "r2", 0, run={})
    write_folder(home.runs / ".r2.replaced", 50, run={})
    write_folder(home.corpora / ".incoming-a", 50)
    prune_home(home, STRICT)
    assert names_in(home.datasets) == names_in(home.corpora) == set()
    assert names_in(home.runs) == {"r1", "r2"}


KILLED = """
import os, sys
from pathlib import Path
from rnnlm.storage.home import Home
from rnnlm.extensions.upkeep.prune import prune_home
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from tests.rnnlm.extensions.upkeep.test_prune import STRICT
home, left = Home(Path(sys.argv[1])), int(sys.argv[2])
def count(event, arguments):
    global left
    if event in ("os.remove", "os.rename", "os.rmdir") and str(arguments[0]).startswith(str(home.root)):
        left -= 1
        if left == 0:
            os._exit(9)
sys.addaudithook(count)
prune_home(home, STRICT)
"""


@pytest.mark.slow
@pytest.mark.parametrize("changes", [1, 8, 14])
def test_the_next_run_finishes_what_a_killed_one_began(tracked_home: Home, changes: int) -> None:
    """A prune killed at its n-th removal or renaming loses nothing, and the next prune completes it."""
    random_history(tracked_home, seed=5, nights=7)
    held, before = check_aliases(tracked_home), chains(tracked_home)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tracked_home.root), str(changes)], env=os.environ)
    assert done.returncode == 9
    assert check_aliases(tracked_home) == held
    for version in read_store(tracked_home).versions:
        assert (tracked_home.runs / version.facts["run_id"]).is_dir()
        assert (tracked_home.datasets / version.facts["dataset_id"]).is_dir()
    # The time is two days later, because items that the killed prune renamed count as recently used.
    soon = time.time() + 2 * 24 * 3600
    prune_home(tracked_home, STRICT, now=soon)
    assert chains(tracked_home) == before
    assert check_aliases(tracked_home) == held
    assert names_in(tracked_home.runs) == {version.facts["run_id"] for version in read_store(tracked_home).versions}
    assert not [path for folder in ("runs", "datasets", "corpora") for path in (tracked_home.root / folder).glob(".*")]
