"""Create random histories of a real registry.

Small folders replace the models, so that many histories can be created.
"""

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from rnnlm.registry.bundle import find_bundle_damage, local_artifacts
from rnnlm.registry.champion_history import read_history, set_champion
from rnnlm.registry.promotion_commands import roll_back
from rnnlm.registry.registry_version import RegistryVersion, read_version, read_versions, registry_version
from rnnlm.registry.stored_versions import read_store
from rnnlm.storage.home import Home, write_json
from rnnlm.storage.stages import find_damage, mark_complete
from rnnlm.tracking.mlflow_store import experiment_id, ignoring, reaching_mlflow
from rnnlm.training.training_run import UNMARKED

DAY_SECONDS = 24 * 3600


def write_folder(folder: Path, age_days: float, **files: object) -> Path:
    """Write a complete folder of JSON files that was last used `age_days` ago."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        write_json(folder / f"{name}.json", value)
    mark_complete(folder, apart_from=UNMARKED)
    make_older(folder, age_days)
    return folder


def make_older(path: Path, age_days: float) -> None:
    then = time.time() - age_days * DAY_SECONDS
    for place in [*path.rglob("*"), path]:
        os.utime(place, (then, then))


def register_night(home: Home, name: str, night: str, age_days: float) -> int:
    """Create the corpus, dataset, run, MLflow run, logged model and version of a nightly run.

    Return the version's number.
    """
    corpus = f"c{night:0>15}"
    write_folder(home.corpora / corpus, age_days, corpus={"bytes": "text " * 200})
    home.make(home.corpora / "known")
    write_json(home.corpora / "known" / f"{night}.json", {"digest": corpus + "0" * 48})
    facts = {"corpus_name": name, "corpus_digest": corpus + "0" * 48}
    write_folder(home.datasets / f"d{night}", age_days, dataset=facts, sequences="1 2 3 " * 500)
    write_folder(home.descriptions / f"d{night}", age_days, description={})
    with reaching_mlflow(home) as client:
        experiment = experiment_id(client, home, "rnnlm")
        tags = {"rnnlm.run_id": f"r{night}"}
        then = round((time.time() - age_days * DAY_SECONDS) * 1000)
        mlflow_run = client.create_run(experiment, tags=tags, start_time=then).info.run_id
        client.log_text(mlflow_run, "sample", "samples.md")
        for step in range(20):
            client.log_metric(mlflow_run, "loss", 1.0 / (step + 1), step=step)
        client.set_terminated(mlflow_run, end_time=then)
        run = home.runs / f"r{night}"
        started = {"run_id": run.name, "dataset_id": f"d{night}"}
        write_folder(run, age_days, started=started, tracking={"mlflow_run_id": mlflow_run}, model="weights " * 500)
        with ignoring("RESOURCE_ALREADY_EXISTS"):
            client.create_registered_model(name)
        logged = client.create_logged_model(experiment, name, source_run_id=mlflow_run, model_type="language model")
        bundle = write_folder(home.root / "bundle", 0, model="weights " * 500)
        client.log_model_artifacts(logged.model_id, str(bundle))
        client.finalize_logged_model(logged.model_id, "READY")
        version_tags = {
            "model_sha256": "0" * 64,
            "logged_model_id": logged.model_id,
            "run_id": run.name,
            "dataset_id": f"d{night}",
            "corpus_digest": facts["corpus_digest"],
        }
        version = client.create_model_version(
            name, logged.artifact_location, run_id=mlflow_run, tags=version_tags, model_id=logged.model_id
        )
    return int(version.version)


def age_versions(home: Home, days: float) -> None:
    """Set the dates of all versions and changes in the registry back by `days`."""
    milliseconds = round(days * DAY_SECONDS * 1000)
    with closing(sqlite3.connect(home.mlflow_database)) as connection, connection:
        connection.execute(f"update model_versions set creation_time = creation_time - {milliseconds}")
        connection.execute(
            "update logged_models set last_updated_timestamp_ms = last_updated_timestamp_ms - ?", (milliseconds,)
        )


def random_history(home: Home, seed: int, nights: int = 10) -> None:
    """Create two models with promotions, rollbacks and aliases that a user has set, over `nights` days."""
    draw = random.Random(seed)
    for night in range(nights):
        name = draw.choice(["rnnlm-a", "rnnlm-a", "rnnlm-b"])
        number = register_night(home, name, f"{seed}{night}", age_days=nights - night + 40 * draw.random())
        with reaching_mlflow(home) as client:
            held = client.get_registered_model(name).aliases
            if "champion" not in held or draw.random() < 0.4:
                set_champion(client, read_version(client, name, number), "hand", "")
            else:
                client.set_registered_model_alias(name, "challenger", str(number))
            if draw.random() < 0.15:
                client.set_registered_model_alias(name, "production", str(draw.randint(1, number)))
            history = read_history(read_versions(client, name))
        if draw.random() < 0.15 and len(history) > 1:
            roll_back(home, name)
    age_versions(home, 50)


def check_aliases(home: Home) -> int:
    """Assert that every version with an alias loads, verifies and has the items from which it was made.

    Return the number of these versions.
    """
    held = [version for version in read_store(home).versions if version.aliases]
    with reaching_mlflow(home) as client:
        for version in held:
            for alias in version.aliases:
                registered = registry_version(client.get_model_version_by_alias(version.name, alias))
                artifacts = local_artifacts(registered)
                assert artifacts is not None
                assert find_bundle_damage(registered, artifacts) is None
            assert client.get_run(version.mlflow_run_id).data.metrics["loss"] == 0.05
            assert lineage_damage(home, version) == []
    return len(held)


def lineage_damage(home: Home, version: RegistryVersion) -> list[str]:
    folders = (
        home.runs / version.facts["run_id"],
        home.datasets / version.facts["dataset_id"],
        home.corpora / version.facts["corpus_digest"][:16],
        home.descriptions / version.facts["dataset_id"],
    )
    return [f"{folder}: {damage}" for folder in folders if (damage := find_damage(folder, UNMARKED))]
