"""Bundles: trained models in MLflow's "models from code" format, with safetensors, exact requirements and no pickle."""

import ast
import importlib.metadata
import inspect
import logging
import re
import shutil
import sys
import urllib.parse
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.config.kinds import KINDS, OWN_MODULES, cell_class, kind_of, own_module_name
from rnnlm.models.count_model import FILE as COUNTS
from rnnlm.models.own_layers import import_known, own_kinds
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.storage.disk_errors import ABSENT
from rnnlm.storage.home import digest_of, file_digest, read_json
from rnnlm.storage.shared_storage import read_marker
from rnnlm.storage.stages import COMPLETE, find_damage

if TYPE_CHECKING:
    from mlflow.models import Model

logger = logging.getLogger(__name__)
LIBRARY = Path(__file__).resolve().parent.parent
REQUIREMENTS = ("mlflow", "torch", "tokenizers", "safetensors", "numpy", "pandas", "pydantic")
INPUT_EXAMPLE = [{"prompt": "The", "temperature": 0.8, "seed": 1}, {"text": "The end."}]
# The folder of the bundle among a version's files. MLflow gives the model folder of a run the same name.
BUNDLE = "artifacts/model"
EVIDENCE = "evidence"  # The folder next to the bundle with the data on which the promotion was decided.
TRAINING_DOCUMENTS = "training_documents.parquet"
HELD_OUT_LINES = "held_out_lines.parquet"
CONFIGURATION = "configuration.json"
CHARACTERS = "characters.json"  # The file of character frequencies; see rnnlm/corpora/character_profile.py.


def model_digest(folder: Path) -> str:
    """Return a digest that identifies a model by its weights and, if there is one, its n-gram model."""
    weights = file_digest(folder / "model.safetensors")
    return digest_of([weights, file_digest(folder / COUNTS)]) if (folder / COUNTS).exists() else weights


def evidence_file(bundle: Path, name: str) -> Path | None:
    """Return the file of the evidence that belongs to the folder BUNDLE of a registered model.

    Return None if it is missing, as for any other folder, or, with a warning, if it is damaged. Callers must accept
    this, because early releases stored no evidence.
    """
    above = [bundle.absolute(), *bundle.absolute().parents]
    artifacts = above[min(len(Path(BUNDLE).parts), len(above) - 1)]
    path = artifacts / EVIDENCE / name
    try:
        digest = file_digest(path)
        is_intact = read_marker(artifacts).get(f"{EVIDENCE}/{name}", digest) == digest
    except ABSENT:
        return path if path.exists() else None  # The evidence of early releases has no marker of completeness.
    except ValueError:
        is_intact = False
    if not is_intact:
        logger.warning("%s: the file is damaged, so it is not used", path)
    return path if is_intact else None


def requirements() -> list[str]:
    """Return the exact versions of all requirements, without suffixes such as `+cpu`, which package indexes lack."""
    return [f"{name}=={importlib.metadata.version(name).partition('+')[0]}" for name in REQUIREMENTS]


def portable_modules(library: Path = LIBRARY) -> list[Path]:
    """Return the library modules that a bundle needs: served_model.py, the modules of all layers, and their imports.

    The paths are relative to the `library` folder.
    """
    from rnnlm.registry.served_model import MODULES

    found: set[Path] = set()
    layers = [f"models{kind.cell.partition(':')[0]}" for kind in KINDS.values()]
    waiting = [library.joinpath(*name.split(".")).with_suffix(".py") for name in (*MODULES, *layers)]
    while waiting:
        module = waiting.pop()
        if module.is_file() and module.relative_to(library) not in found:
            found.add(module.relative_to(library))
            waiting += relative_imports(module)
    return sorted(found)


def relative_imports(module: Path) -> list[Path]:
    """Return the files to which the relative imports in a module may refer."""
    meant: list[Path] = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            meant += [base.with_suffix(".py") if node.module else base]
            meant += [base / f"{alias.name}.py" for alias in node.names]
    return meant


def copy_own_cell(kind: str, folder: Path) -> None:
    """Copy the module of a custom layer into the code of a bundle, and make its imports of rnnlm relative."""
    source = inspect.getsource(sys.modules[cell_class(kind_of(kind)).__module__])
    copied = folder / OWN_MODULES / f"{own_module_name(kind.partition(':')[0])}.py"
    copied.parent.mkdir(exist_ok=True)
    copied.write_text(re.sub(r"^(\s*from) rnnlm\.", r"\1 ..", source, flags=re.MULTILINE), encoding="utf-8")


def copy_portable_modules(folder: Path) -> None:
    """Copy the files of portable_modules() to a new folder, with the same subfolders."""
    for module in portable_modules():
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(LIBRARY / module, folder / module)


def save_bundle(folder: Path, model: Path, card: str, description: "Model") -> Path:
    """Save the model in the folder `model` as an MLflow model in the empty `folder`, and return the saved folder.

    The model card is saved as README.md.
    """
    import mlflow.pyfunc

    code, bundle, saved = (folder / name for name in ("code", "model", "saved"))
    copy_portable_modules(code)
    config = read_json(model / "config.json")
    import_known(kinds := own_kinds(config))
    for kind in kinds:
        copy_own_cell(kind, code)
    # Hidden files are left out, because they are incomplete files of a killed process.
    shutil.copytree(model, bundle, ignore=shutil.ignore_patterns(".*"))
    (bundle / "README.md").write_text(card, encoding="utf-8")
    mlflow.pyfunc.save_model(
        saved,
        python_model=str(LIBRARY / "registry" / "served_model.py"),
        artifacts={"bundle": str(bundle), "code": str(code)},
        input_example=INPUT_EXAMPLE,
        # The requirements are given, because MLflow would otherwise run the model for 10 s to infer them.
        pip_requirements=requirements(),
        mlflow_model=description,
    )
    # Remove the bytecode caches that Python wrote when MLflow ran the input example.
    for compiled in list(saved.rglob("__pycache__")):
        shutil.rmtree(compiled)
    return saved


def local_artifacts(version: RegistryVersion) -> Path | None:
    """Return the folder of a version's artifacts, or None if the artifacts are not on this machine."""
    url = urllib.parse.urlparse(version.source)
    return Path(urllib.request.url2pathname(url.path)) if url.scheme in ("", "file") else None


def find_bundle_damage(version: RegistryVersion, artifacts: Path, apart_from: Collection[str] = ()) -> str | None:
    """Return a description of the damage of a version's files in the folder `artifacts`, or None if they are intact.

    Entries named in `apart_from` are skipped. Versions of early releases have no marker of completeness, so only the
    digest of their weights is checked.
    """
    if (artifacts / COMPLETE).exists():
        return find_damage(artifacts, apart_from)
    try:
        if model_digest(artifacts / BUNDLE) == version.facts.get("model_sha256"):
            return None
    except ABSENT:
        return f"{BUNDLE}/model.safetensors is missing"
    return f"{BUNDLE}/model.safetensors differs from the sha256 it was registered with"
