"""The choice of the registered model from which training starts, which is made once for each text.

If every run chose again, two runs could train different models on the same text.
"""

import logging
import shutil
from pathlib import Path

from rnnlm.config import ModelConfig, PipelineConfig, result_settings
from rnnlm.config.kinds import MEMBERS
from rnnlm.errors import ModelError, TrackingError
from rnnlm.models.model_factory import architecture
from rnnlm.registry.bundle import model_digest
from rnnlm.registry.model_lookup import find_version, full_reference, registered_folder, registered_version
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.seen_documents import cleaning_hides_text, training_digests
from rnnlm.registry.version_tags import registered_name
from rnnlm.storage.home import Home, digest_of, read_json
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, StartedFrom
from rnnlm.storage.stage_folders import ANCESTOR_DOCUMENTS
from rnnlm.storage.stages import write_once
from rnnlm.tokenizers.text_tokenizer import SETTINGS_FILE, load_tokenizer
from rnnlm.training.warm_start import shared_tokens, start_folder

logger = logging.getLogger(__name__)
COPIED = ("config.json", "model.safetensors", "tokenizer.json", SETTINGS_FILE)
STORED_SETTINGS = {  # The fields in the configuration of a saved model, with the names of the corresponding settings.
    "kind": "model.kind",
    "one_hot": "model.input",
    "hidden_size": "model.hidden_size",
    "embedding_size": "model.embedding_size",
    "num_hidden_layers": "model.layers",
    "residual": "model.residual",
    "branch_scale": "model.residual",
    "nonlinearity": "model.nonlinearity",
    "diagonal": "model.recurrence",
    "heads": "model.heads",
    "attention_window": "model.attention_window",
    "tie_word_embeddings": "model.tie_embeddings",
}


def choose_start(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, *, force: bool = False
) -> StartedFrom | None:
    """Return the version that training.start_from selects, copied into home.starts, or None for random weights.

    The choice is stored for this dataset and these settings. Hence a resumed run starts from the same weights, and the
    next run on the same text finds the finished run even if there is a new champion. If `force` is true, the choice is
    made again.
    """
    wanted = config.training.start_from
    if wanted == "nothing":
        return None
    name = registered_name(config.registry, dataset.corpus_name)
    facts = [dataset.dataset_id, result_settings(config.model), result_settings(config.training), name]
    key = digest_of(facts)

    def decide() -> dict[str, object]:
        found = find_start(home, config, dataset, name)
        chosen = {"reason": found} if isinstance(found, str) else {"start": found.model_dump()}
        # The dataset_id is stored so that `rnnlm prune` keeps the file for as long as the dataset.
        return {"dataset_id": dataset.dataset_id, **chosen}

    home.make(home.starts)
    decision, _ = write_json_once(home, home.starts / f"{key[:16]}.json", key, decide, force=force)
    if "start" not in decision:
        logger.info("training: starts from random weights, because %s", decision["reason"])
        return None
    start = StartedFrom(**decision["start"])
    logger.info("training: starts from %s", start)
    return start


def find_start(home: Home, config: PipelineConfig, dataset: DatasetRecord, name: str) -> StartedFrom | str:
    """Return the version to start from, copied into home.starts, or the reason why there is none.

    Raise ModelError if training.start_from names a version that does not exist or cannot be loaded.
    """
    wanted = config.training.start_from
    try:
        if wanted == "champion":
            version = find_version(home, name, "champion", None)
        else:
            version = registered_version(home, full_reference(home, wanted))
        return f"{name} has no champion yet" if version is None else start_or_reason(home, config, dataset, version)
    except TrackingError as error:  # Training starts from random weights if MLflow is unavailable.
        return f"MLflow is unavailable ({str(error).splitlines()[0]})"
    except ModelError as error:
        if wanted != "champion":
            raise
        return f"the champion cannot be loaded ({str(error).splitlines()[0]})"


def start_or_reason(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, version: RegistryVersion
) -> StartedFrom | str:
    """Copy the version into home.starts, or return the reason why training cannot start from it.

    Raise ModelError if the version cannot be loaded.
    """
    folder = registered_folder(home, version.uri)
    # The start is refused if cleaning hides which documents the version has seen, because the new model could then be
    # evaluated on none of them.
    why = find_difference(config.model, dataset.tokenizer_folder, folder) or cleaning_hides_text(config.corpus, version)
    if why is not None:
        return f"{version.name} version {version.number} does not fit: {why}"
    start = StartedFrom(
        name=version.name,
        version=version.number,
        model_sha256=model_digest(folder),
        token_rows_kept=len(shared_tokens(dataset.tokenizer_folder, folder)),
        token_rows=dataset.vocabulary_size,
    )
    documents = training_digests(version, folder)

    def copy(partial: Path) -> None:
        for file in COPIED:
            shutil.copy(folder / file, partial / file)
        if documents is not None:
            shutil.copy(documents, partial / ANCESTOR_DOCUMENTS)

    write_once(home, start_folder(home, start), copy)
    return start


def find_difference(config: ModelConfig, tokenizer_folder: Path, earlier: Path) -> str | None:
    """Return the reason why a new model cannot begin with the weights in `earlier`, or None if it can."""
    new_tokenizer, old_tokenizer = load_tokenizer(tokenizer_folder), load_tokenizer(earlier)
    for name in ("kind", "splitting", "unknown_literal"):
        new, old = getattr(new_tokenizer, name), getattr(old_tokenizer, name)
        if new != old:
            return f"tokenizer.{name} is {new} and was {old}"
    stored = read_json(earlier / "config.json")
    if MEMBERS in stored:
        return f"it is an ensemble of {len(stored[MEMBERS])} networks"
    wanted, found = architecture(config, 1), {"kind": "elman", "branch_scale": 1.0} | stored
    for field, setting in STORED_SETTINGS.items():
        if field == "embedding_size" and wanted["one_hot"]:
            continue  # The embedding size of this model equals the vocabulary size, which may differ.
        new, old = wanted.get(field), found.get(field)
        if new != old:
            return f"{setting} differs ({field} is {new} and was {old})"
    return None
