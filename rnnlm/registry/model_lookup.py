"""Lists of registered models, and the search for the folder of a model by any of its names."""

import math
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rnnlm.config import CorpusConfig
from rnnlm.errors import ModelError
from rnnlm.models.own_layers import note, own_kinds
from rnnlm.registry.bundle import (
    BUNDLE,
    CONFIGURATION,
    EVIDENCE,
    evidence_file,
    find_bundle_damage,
    local_artifacts,
    model_digest,
)
from rnnlm.registry.registry_version import RegistryVersion, read_versions, registry_version
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, digest_of, expanded, read_json
from rnnlm.storage.result_records import ListedVersion
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import find_new_damage, mark_used, write_once
from rnnlm.tracking.mlflow_store import all_pages, ignoring, is_embedded, is_empty, reaching_mlflow, tracking_uri

SHORT_REFERENCE = re.compile(r"(?P<name>[^/@]+)(@[^/@]+|/[0-9]+)?")
REFERENCE = re.compile(r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>[0-9]+))")
RUN_ID = re.compile("[0-9a-f]{1,16}")  # A pattern for a run's id or its beginning.
MODELS_SHOWN = 8


def list_models(home: Home) -> list[ListedVersion]:
    """Return all versions of all registered models, the newest one first."""
    if is_empty(home):
        return []
    with reaching_mlflow(home) as client:
        # The aliases are read from the registered models, because MLflow's search for versions does not return them.
        aliases = {model.name: dict(model.aliases) for model in all_pages(client.search_registered_models)}
        found = all_pages(client.search_model_versions)
        versions = [registry_version(version, aliases.get(version.name)) for version in found]
    versions.sort(key=lambda version: (version.created_ms, version.number), reverse=True)
    return [version.listed() for version in versions]


def of_dataset(versions: list[ListedVersion], dataset: str) -> list[ListedVersion]:
    """Return the versions trained on a dataset, which is given by its id, the beginning of its id, or its folder."""
    return [version for version in versions if version.dataset_id.startswith(Path(dataset).name)]


def best_versions(versions: list[ListedVersion]) -> list[ListedVersion]:
    """Return the version with the lowest validation perplexity for each model and dataset, in the given order.

    Perplexities of two datasets are not comparable. Among versions with equal perplexity, the first registered one is
    returned.
    """
    best: dict[tuple[str, str], ListedVersion] = {}
    for version in sorted(versions, key=lambda version: (version.validation_perplexity or math.inf, version.version)):
        if version.validation_perplexity is not None and math.isfinite(version.validation_perplexity):
            best.setdefault((version.name, version.dataset_id), version)
    return [version for version in versions if version in best.values()]


def full_reference(home: Home, wanted: str | None) -> str:
    """Return the full reference to one model, which is a folder, a run id, models:/NAME@ALIAS or models:/NAME/VERSION.

    `wanted` is one of these references, a registered NAME (whose champion is meant), NAME@ALIAS or NAME/VERSION. If it
    is None, the champion of the only registered model is meant. Raise ModelError if `wanted` is None and there is not
    exactly one such model, or if `wanted` names two models. Any other text is returned unchanged.
    """
    if wanted is None:
        names = sorted({version.name for version in list_models(home) if "champion" in version.aliases})
        if not names:
            raise ModelError(f"no registered model has a champion; {known_models(home)}")
        if len(names) > 1:
            raise ModelError(
                f"{len(names)} models have a champion; name one, such as {names[0]} "
                f"(in a deployment, set `model` in `config`);\n{known_models(home)}"
            )
        return f"models:/{names[0]}@champion"
    match = SHORT_REFERENCE.fullmatch(wanted)
    if match is None or wanted.startswith("models:") or (home.runs / wanted).exists():
        return wanted
    if match["name"] not in {version.name for version in list_models(home)}:
        return wanted
    named = expanded(wanted)
    others = [*matching_runs(home, wanted), *(place for place in (named / "model", named) if is_model(place))]
    full = f"models:/{wanted}" + ("@champion" if wanted == match["name"] else "")
    if others:
        raise ModelError(
            f"{wanted} means two models: the registered {full}, and\n"
            f"{', '.join(str(other) for other in others[:MODELS_SHOWN])}.\n"
            f"Give {full}, a run's whole id, or a folder with its whole path."
        )
    return full


def matching_runs(home: Home, beginning: str) -> list[Path]:
    """Return the model folders of the runs whose ids begin with `beginning`."""
    runs = sorted(home.runs.glob(f"{beginning}*/model")) if RUN_ID.fullmatch(beginning) else []
    return [run for run in runs if is_model(run)]


def registered_name_and_version(home: Home, wanted: str | None) -> tuple[str, str]:
    """Return the name and the alias or number of a registered version. Raise ModelError for a folder or run."""
    reference = full_reference(home, wanted)
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ModelError(
            f"{reference}: no registered model; expected NAME, NAME@ALIAS or NAME/3;\n{known_models(home)}"
        )
    return match["name"], match["alias"] or match["version"]


def model_folder(home: Home, wanted: str | None) -> Path:
    """Return a folder with the configuration, safetensors and tokenizer of a model. Raise ModelError if there is none.

    `wanted` is a model as in full_reference(). A run may also be given by its model folder or the beginning of its id.
    """
    reference = full_reference(home, wanted)
    if reference.startswith("models:"):
        return registered_folder(home, reference)
    # The path is made absolute, because files in its parent folders are also read.
    named = expanded(reference).absolute()
    places = [named / "model", named]
    for place in places:
        if is_model(place):
            return unchanged(home, place)
    if len(found := matching_runs(home, reference)) == 1:
        mark_used(found[0].parent)
        return unchanged(home, found[0])
    if found:
        names = ", ".join(run.parent.name for run in found[:MODELS_SHOWN])
        raise ModelError(
            f"{reference}: the ids of {len(found)} runs begin with this text ({names});\ngive more of the id"
        )
    if named.exists():
        raise ModelError(
            f"{reference}: expected a model (config.json, model.safetensors), found none.\n"
            "Give the folder of a finished run, or a registered name."
        )
    raise ModelError(
        f"{reference}: no model, run or folder of this name.\n"
        f"Give a registered name, NAME@challenger, NAME/3, a run's id or folder;\n{known_models(home)}"
    )


def corpus_settings(folder: Path) -> dict[str, Any]:
    """Return the corpus settings of the model in `folder` that differ from the defaults.

    The result is empty if neither the model's run nor its registered version has stored the configuration.
    """
    stored = RunFolder(folder.parent).configuration
    if not stored and (registered := evidence_file(folder, CONFIGURATION)):
        stored = read_json(registered)
    found = stored.get("corpus") if isinstance(stored, dict) else None
    known = CorpusConfig.model_fields
    return {
        name: value
        for name, value in (found if isinstance(found, dict) else {}).items()
        if name in known and (name == "source" or value != known[name].default)
    }


def is_model(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("config.json", "model.safetensors"))


def registered_folder(home: Home, reference: str) -> Path:
    """Return the verified local folder of a registered version: its artifacts, or a copy of them in the rnnlm home."""
    version = registered_version(home, reference)
    artifacts = local_artifacts(version) or fetched(home, version)
    folder = artifacts / BUNDLE
    if not is_model(folder):
        raise ModelError(
            f"{reference}: {folder}: expected a model (config.json, model.safetensors), found none.\n"
            "Its artifacts were moved or deleted, or another program registered it; register a run again."
        )
    if "model_sha256" in version.facts and (damage := find_bundle_damage(version, artifacts, (EVIDENCE,))):
        raise ModelError(
            f"{reference}: {artifacts}: {damage}.\n"
            "If the run that trained this version is in this home, `rnnlm run` with that run's settings writes the\n"
            f"files again. Otherwise, roll back to another version: rnnlm rollback {version.name}"
        )
    if not is_embedded(home) and "model_sha256" in version.facts:
        # A user who names a remote server trusts its bundles. A bundle of the rnnlm home is not trusted, because the
        # home's files may come from another user.
        note(home, own_kinds(read_json(folder / "config.json") or {}))
    return folder


def run_model_folder(home: Home, wanted: str | None) -> Path:
    """Return the model's folder inside its training run, which also contains other files.

    `wanted` is a model as in model_folder(). Raise ModelError if the run of a registered version is not in this rnnlm
    home, or was trained again after the registration.
    """
    reference = full_reference(home, wanted)
    if not reference.startswith("models:"):
        return model_folder(home, reference)
    version = registered_version(home, reference)
    run_id = version.facts.get("run_id")
    if run_id is None:
        raise ModelError(
            f"{reference}: another program registered this version, without a run;\ngive a run's folder or its id"
        )
    folder = inside(home.runs, run_id) / "model"
    if not is_model(folder):
        raise ModelError(
            f"{reference}: its run {run_id} is not under {home.runs}, and this command reads the run's folder.\n"
            "Use the RNNLM_HOME in which the model was trained, or train the model again."
        )
    if model_digest(folder) != version.facts.get("model_sha256"):
        raise ModelError(
            f"{reference}: its run {run_id} has been trained again, so {folder} has another model.\n"
            f"Give {run_id} to use that model, or give a version that was registered since then."
        )
    return unchanged(home, folder)


def unchanged(home: Home, folder: Path) -> Path:
    """Return the model's folder. Raise ModelError if it belongs to a finished run whose files have changed.

    The files are hashed again only if their sizes or times have changed.
    """
    run = folder.parent
    if RunFolder(run).finished and RunFolder(run).facts_path.exists() and (damage := find_new_damage(home, run)):
        raise ModelError(
            f"{run}: the run is damaged: {damage}.\n"
            "Run `rnnlm run` with its settings to train it again, or use a registered version of it."
        )
    return folder


def registered_version(home: Home, reference: str) -> RegistryVersion:
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ModelError(f"{reference}: expected models:/NAME@ALIAS or models:/NAME/VERSION;\n{known_models(home)}")
    version = find_version(home, match["name"], match["alias"], match["version"])
    if version is None:
        raise ModelError(f"{reference}: no such version in the registry;\n{known_models(home)}")
    return version


def find_version(home: Home, name: str, alias: str | None, number: str | None) -> RegistryVersion | None:
    """Return the version with this alias or number, or None if there is none."""
    if is_empty(home):
        return None
    with reaching_mlflow(home) as client, ignoring("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        if alias is not None:
            return registry_version(client.get_model_version_by_alias(name, alias))
        return registry_version(client.get_model_version(name, str(number)))
    return None


def registered_versions(home: Home, name: str) -> dict[int, RegistryVersion]:
    """Return all versions of a registered model by number. The result is empty if the model does not exist."""
    if is_empty(home):
        return {}
    with reaching_mlflow(home) as client, ignoring("RESOURCE_DOES_NOT_EXIST"):
        return {version.number: version for version in read_versions(client, name)}
    return {}


def fetched(home: Home, version: RegistryVersion) -> Path:
    """Return the folder of the version's artifacts, which are downloaded once from a remote artifact store."""
    number, uri = str(version.number), tracking_uri(home)
    identity = [uri, version.name, number, version.created_ms, BUNDLE]
    final = home.fetched / digest_of(identity)[:16]

    def download(partial: Path) -> None:
        import mlflow.artifacts

        with reaching_mlflow(home) as client, tempfile.TemporaryDirectory(prefix="rnnlm-fetched-") as temporary:
            source = client.get_model_version_download_uri(version.name, number).rstrip("/")
            if not mlflow.artifacts.list_artifacts(artifact_uri=f"{source}/{BUNDLE}", tracking_uri=uri):
                raise ModelError(f"{version.uri}: {source}: no model found; register a run again")
            local = mlflow.artifacts.download_artifacts(artifact_uri=source, tracking_uri=uri, dst_path=temporary)
            # The downloaded files include a marker with their digests. write_once() compares the copy with the marker
            # before each use, and downloads the files again if they differ.
            if damage := find_bundle_damage(version, Path(local)):
                raise ModelError(f"{version.uri}: {source}: {damage}; register a run again")
            shutil.copytree(local, partial, dirs_exist_ok=True)

    write_once(home, final, download)
    return final


def known_models(home: Home) -> str:
    """Return one line with the names of the registered models, for an error message."""
    names = sorted({version.name for version in list_models(home)})
    if not names:
        return "no model is registered yet: `rnnlm run` makes one."
    more = f" and {len(names) - MODELS_SHOWN} more" if len(names) > MODELS_SHOWN else ""
    return f"registered: {', '.join(names[:MODELS_SHOWN])}{more} (`rnnlm models` lists the versions)."
