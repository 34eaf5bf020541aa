"""Choose the registered model that a training continues from: once per text, so that no text is trained on twice."""

import logging
import shutil
from pathlib import Path

from rnnlm.config import PipelineConfig, result_settings
from rnnlm.errors import ModelError, TrackingError
from rnnlm.home import Home, digest_of
from rnnlm.registry.bundle import model_digest
from rnnlm.registry.model_lookup import find_version, full_reference, registered_folder, registered_version
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.seen_documents import cleaning_hides_text, training_digests
from rnnlm.registry.version_tags import registered_name
from rnnlm.storage.records import DatasetRecord, StartedFrom
from rnnlm.storage.stages import write_json_once, write_once
from rnnlm.tokenizers.text_tokenizer import SETTINGS_FILE
from rnnlm.training.warm_start import ANCESTOR_DOCUMENTS, find_difference, shared_tokens, start_folder

logger = logging.getLogger(__name__)
COPIED = ("config.json", "model.safetensors", "tokenizer.json", SETTINGS_FILE)


def choose_start(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, *, force: bool = False
) -> StartedFrom | None:
    """The version that training.start_from names, copied into home.starts; None: training begins with random weights.

    The decision is kept for this dataset and these settings. So a resumed run starts from the same weights, and the
    next run on the same text finds the finished one although there is a new champion. force: decide again.
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
        return {"dataset_id": dataset.dataset_id, **chosen}  # prune keeps the decision as long as the dataset

    home.make(home.starts)
    decision, _ = write_json_once(home, home.starts / f"{key[:16]}.json", key, decide, force=force)
    if "start" not in decision:
        logger.info("training: starts from random weights: %s", decision["reason"])
        return None
    start = StartedFrom(**decision["start"])
    logger.info("training: starts from %s", start)
    return start


def find_start(home: Home, config: PipelineConfig, dataset: DatasetRecord, name: str) -> StartedFrom | str:
    """The version to start from, copied into home.starts; or the reason why there is none.

    ModelError if the settings name a version that does not exist or cannot be loaded.
    """
    wanted = config.training.start_from
    try:
        if wanted == "champion":
            version = find_version(home, name, "champion", None)
        else:
            version = registered_version(home, full_reference(home, wanted))
        return f"{name} has no champion yet" if version is None else start_or_reason(home, config, dataset, version)
    except TrackingError as error:  # it must not stop training
        return f"MLflow is unavailable ({str(error).splitlines()[0]})"
    except ModelError as error:
        if wanted != "champion":
            raise
        return f"the champion cannot be loaded ({str(error).splitlines()[0]})"


def start_or_reason(
    home: Home, config: PipelineConfig, dataset: DatasetRecord, version: RegistryVersion
) -> StartedFrom | str:
    """The version, copied into home.starts; or the reason why it does not fit. ModelError if it cannot be loaded."""
    folder = registered_folder(home, version.uri)
    # If it is unknown which documents the version has seen, the new model could not be judged by them.
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
