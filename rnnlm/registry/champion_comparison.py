"""Compare a new version with the champion on documents that neither was trained on.

Beside each version's bundle are `evidence/training_documents.parquet` (see seen_documents.py) and
`evidence/losses.parquet` (what each document cost both).
"""

import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.bootstrap import measure_evidence
from rnnlm.evaluation.paired.holdout_documents import (
    FEW_DOCUMENTS,
    HoldoutDocument,
    cut_into_blocks,
    holdout_documents,
)
from rnnlm.evaluation.paired.paired_losses import Contestant, load_contestant, write_paired_losses
from rnnlm.home import Home
from rnnlm.models.devices import evaluation_device, float32_products
from rnnlm.registry.bundle import EVIDENCE, TRAINING_DOCUMENTS
from rnnlm.registry.model_lookup import registered_folder
from rnnlm.registry.promotion import Decision, best_champion, comparisons_before, decide, joined, undecidable
from rnnlm.registry.registry_version import RegistryVersion, read_versions
from rnnlm.registry.seen_documents import cleaning_hides_text, training_digests, write_training_documents
from rnnlm.registry.version_tags import Candidate, corpus_folder
from rnnlm.storage.result_records import Evidence

if TYPE_CHECKING:
    from mlflow import MlflowClient

PAIRED_LOSSES = "losses.parquet"


def compare_with_champion(
    client: "MlflowClient", home: Home, candidate: Candidate, version: RegistryVersion, champion: RegistryVersion
) -> Decision:
    """The decision against the champion, and with registry.policy=newer against the best champion of the last month.

    Each night may lose a little less than the margin: the second comparison keeps these losses from adding up.
    """
    # Without the version itself, which may have been compared by a registration that was killed.
    versions = [one for one in read_versions(client, champion.name) if one.number != version.number]
    best = best_champion(versions, champion.number)
    beside_best = None
    with tempfile.TemporaryDirectory(prefix="rnnlm-evidence-") as temporary:
        contest = Contest(versions, home, candidate, Path(temporary))
        decision = contest.decide_against(champion, "champion")
        if contest.losses.exists():
            client.log_model_artifact(version.facts["logged_model_id"], str(contest.losses), EVIDENCE)
        if best is not None and decision.alias == "champion" and candidate.config.registry.policy == "newer":
            beside_best = contest.decide_against(best, "the best champion of the month,")
    return joined(decision, beside_best, version.number, (best or champion).number)


class Contest:
    """A candidate, which is compared with earlier versions on documents that neither has seen."""

    def __init__(self, versions: list[RegistryVersion], home: Home, candidate: Candidate, folder: Path) -> None:
        """versions: all others of the registered model. folder: an empty one for temporary files."""
        self.versions, self.home, self.candidate, self.folder = versions, home, candidate, folder
        self.device = str(evaluation_device(candidate.config.training.device))

    @property
    def losses(self) -> Path:
        """The file of both models' losses in the last comparison; missing if there was none."""
        return self.folder / PAIRED_LOSSES

    @cached_property
    def contestant(self) -> Contestant:
        return load_contestant(self.candidate.run.model_folder, self.device)

    @cached_property
    def training_documents(self) -> Path | None:
        """Fingerprints of what the candidate has seen; None if that is unknown."""
        path = self.folder / TRAINING_DOCUMENTS
        return None if write_training_documents(self.candidate, path) is None else path

    def decide_against(self, rival: RegistryVersion, called: str) -> Decision:
        """called: what the reason calls the earlier version, which may not be loadable; then there is no promotion."""
        config, dataset, number = self.candidate.config, self.candidate.dataset, rival.number
        try:
            rival_folder = registered_folder(self.home, rival.uri)
            rival_model = load_contestant(rival_folder, self.device)
        except ModelError as error:
            return undecidable(number, f"its model cannot be loaded ({str(error).splitlines()[0]}); see rnnlm promote")
        if (why := cleaning_hides_text(config.corpus, rival)) is not None:
            return undecidable(number, why)
        if self.training_documents is None:
            return undecidable(number, "it is unknown what the model that the candidate started from was trained on")
        rivals = training_digests(rival, rival_folder)
        seen = [self.training_documents, *([rivals] if rivals else [])]
        documents = holdout_documents(dataset, seen, config.registry.maximum_documents, config.registry.seed)
        if not documents:
            return undecidable(number, "the training of one of the two has seen every validation document")
        evidence = self.measure(rival_model, documents, 1 + comparisons_before(self.versions, number))
        decision = decide(evidence, number, config.registry, called)
        same_text = rival.facts.get("dataset_id") == dataset.dataset_id and "started_from" not in rival.facts
        if rivals or same_text:
            return decision
        # Registered before training documents were kept. The version may have seen some of the documents, which can
        # only help it: a candidate that wins nevertheless is better.
        reason = f"{decision.reason}; champion version {number}'s training text is unknown, so it may have seen some"
        return Decision(decision.alias, reason, evidence)

    def measure(self, rival: Contestant, documents: list[HoldoutDocument], comparison: int) -> Evidence:
        """comparison: how many candidates have been compared with this rival, this one included."""
        texts = corpus_folder(self.home, self.candidate.dataset)
        if blocks := len(documents) < FEW_DOCUMENTS:
            documents = cut_into_blocks(texts, documents)
        with float32_products("float32"):
            write_paired_losses({"candidate": self.contestant, "champion": rival}, documents, texts, self.losses)
        return measure_evidence(self.losses, self.candidate.config.registry, comparison, blocks=blocks)
