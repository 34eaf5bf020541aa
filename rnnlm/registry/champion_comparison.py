"""Comparison of a new version with the champion on lines that neither model was trained or selected on.

Next to each version's bundle are `evidence/training_documents.parquet` and `evidence/held_out_lines.parquet` (see
seen_documents.py), and `evidence/losses.parquet` with the loss of each line under both models.
"""

import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from rnnlm.errors import ModelError
from rnnlm.evaluation.paired.bootstrap import measure_evidence
from rnnlm.evaluation.paired.holdout_documents import HoldoutDocument, comparison_documents
from rnnlm.evaluation.paired.paired_losses import Contestant, load_contestant, write_paired_losses
from rnnlm.evaluation.paired.seen_text import lists_lines
from rnnlm.models.devices import evaluation_device, float32_products
from rnnlm.registry.bundle import EVIDENCE, TRAINING_DOCUMENTS
from rnnlm.registry.model_lookup import registered_folder
from rnnlm.registry.promotion import (
    BEST_WITHIN,
    Decision,
    best_champion,
    comparisons_before,
    decide,
    joined,
    undecidable,
    with_approval,
    with_own_text,
)
from rnnlm.registry.registry_version import RegistryVersion, read_versions
from rnnlm.registry.seen_documents import (
    cleaning_hides_text,
    held_out_lines,
    lines_are_alike,
    saw_the_same_documents,
    training_digests,
    write_training_documents,
)
from rnnlm.registry.version_tags import SETTINGS, Candidate, corpus_folder, settings_fact
from rnnlm.storage.home import Home
from rnnlm.storage.result_records import Evidence

if TYPE_CHECKING:
    from mlflow import MlflowClient

PAIRED_LOSSES = "losses.parquet"


def compare_with_champion(
    client: "MlflowClient", home: Home, candidate: Candidate, version: RegistryVersion, champion: RegistryVersion
) -> Decision:
    """Compare a new version with the champion, and return the decision whether it becomes champion.

    With registry.policy=newer, each new champion may be worse by a little less than the margin. To keep such losses
    from accumulating, the version is then compared with the best champion of the last month, too.
    """
    # The new version is left out, because a killed registration may already have compared it.
    versions = [one for one in read_versions(client, champion.name) if one.number != version.number]
    best = best_champion(versions, champion.number, within=BEST_WITHIN)
    beside_best = None
    with tempfile.TemporaryDirectory(prefix="rnnlm-evidence-") as temporary:
        contest = Contest(versions, home, candidate, Path(temporary), f"rnnlm promote {version.name}/{version.number}")
        decision = contest.decide_against(champion, "champion")
        if contest.losses.exists():
            client.log_model_artifact(version.facts["logged_model_id"], str(contest.losses), EVIDENCE)
        if best is not None and decision.alias == "champion" and candidate.config.registry.policy == "newer":
            beside_best = contest.decide_against(best, "the best champion of the month,")
    return with_approval(
        joined(decision, beside_best, version.number, (best or champion).number), candidate.config.registry
    )


class Contest:
    """A candidate that is compared with earlier versions on lines that neither model has seen."""

    def __init__(
        self, versions: list[RegistryVersion], home: Home, candidate: Candidate, folder: Path, by_hand: str
    ) -> None:
        """Prepare the comparison of a candidate.

        Args:
            versions: All other versions of the registered model.
            home: The rnnlm home.
            candidate: The candidate.
            folder: An empty folder for temporary files.
            by_hand: The command that promotes the candidate.
        """
        self.versions, self.home, self.candidate, self.folder, self.by_hand = versions, home, candidate, folder, by_hand
        self.device = str(evaluation_device(candidate.config.training.device))

    @property
    def losses(self) -> Path:
        """The file with both models' losses in the last comparison. It does not exist before the first comparison."""
        return self.folder / PAIRED_LOSSES

    @cached_property
    def contestant(self) -> Contestant:
        return load_contestant(self.candidate.run.model_folder, self.device)

    @cached_property
    def training_documents(self) -> Path | None:
        """The file with the fingerprints of the text that the candidate has seen, or None if they are unknown."""
        path = self.folder / TRAINING_DOCUMENTS
        return None if write_training_documents(self.candidate, path) is None else path

    def decide_against(self, rival: RegistryVersion, called: str) -> Decision:
        """Compare the candidate with an earlier version, and return the decision.

        If the earlier version cannot be loaded, the candidate is not promoted. `called` is the name that the reason of
        the decision gives the earlier version, such as "champion".
        """
        config, dataset, number = self.candidate.config, self.candidate.dataset, rival.number
        try:
            rival_folder = registered_folder(self.home, rival.uri)
            rival_model = load_contestant(rival_folder, self.device)
        except ModelError as error:
            return self.without_evidence(number, f"its model cannot be loaded ({str(error).splitlines()[0]})")
        if (why := cleaning_hides_text(config.corpus, rival)) is not None:
            return self.without_evidence(number, why)
        if self.training_documents is None:
            why = "it is unknown on which text the candidate's initial model was trained"
            return self.without_evidence(number, why)
        rivals = training_digests(rival, rival_folder)
        seen = [self.training_documents, *([rivals] if rivals else [])]
        registry, texts = config.registry, corpus_folder(self.home, dataset)
        limits = registry.maximum_documents, registry.seed, registry.minimum_units
        known = all(map(lists_lines, seen)) and lines_are_alike(config.corpus, rival)
        documents = comparison_documents(dataset, texts, seen, *limits, lines_are_known=known)
        must_be_better = self.why_it_must_be_better(rival, rivals)
        evidence = self.measure(rival_model, documents, 1 + comparisons_before(self.versions, number), must_be_better)
        if evidence is None:
            return self.without_evidence(number, why_nothing_is_compared(number, known))
        decision = decide(evidence, number, registry, called, must_be_better)
        decision = with_own_text(decision, self.measure_own_text(rival_folder, evidence), number, registry)
        same_text = rival.facts.get("dataset_id") == dataset.dataset_id and "started_from" not in rival.facts
        if rivals or same_text:
            return decision
        # The champion may have seen some of these lines, because its training text was not recorded. This can only
        # favour the champion, so a candidate that is shown to be better is better.
        unknown = f"champion version {number}'s training text is unknown, so it may know some of these lines"
        return decision._replace(reason=f"{decision.reason}; {unknown}")

    def without_evidence(self, champion: int, why: str) -> Decision:
        return undecidable(champion, f"{why}; to promote it by hand: {self.by_hand}")

    def measure(
        self, rival: Contestant, documents: list[HoldoutDocument], comparison: int, must_be_better: str
    ) -> Evidence | None:
        """Measure the losses of both models on the documents, and return the evidence.

        `comparison` is the number of candidates that were compared with this rival, including the current one.
        """
        if not documents:
            return None
        texts, registry = corpus_folder(self.home, self.candidate.dataset), self.candidate.config.registry
        with float32_products("float32"):
            write_paired_losses({"candidate": self.contestant, "champion": rival}, documents, texts, self.losses)
        better = bool(must_be_better) or registry.policy == "better"
        return measure_evidence(self.losses, registry, comparison, must_be_better=better)

    def measure_own_text(self, rival_folder: Path, evidence: Evidence) -> Evidence | None:
        """Return the evidence on the lines that the rival held out from its training, or None if they are unknown."""
        own = held_out_lines(rival_folder)
        if own is None:
            return None
        found = np.intersect1d(own, pq.read_table(self.losses, columns=["digest"])["digest"].to_numpy())
        return measure_evidence(self.losses, self.candidate.config.registry, evidence.comparison, only_lines=found)

    def why_it_must_be_better(self, rival: RegistryVersion, rivals: Path | None) -> str:
        """Return the reason why the candidate must be shown to be better under any policy, or "" if there is none."""
        config, dataset = self.candidate.config, self.candidate.dataset
        same_corpus = rival.facts.get("corpus_digest") == dataset.corpus_digest
        seen = self.training_documents
        if same_corpus or (seen and rivals and saw_the_same_documents(seen, rivals)):
            return "it was trained on no newer text"
        if config.registry.promote == "if_better":
            return "registry.promote is if_better"
        differs = SETTINGS in rival.facts and rival.facts[SETTINGS] != settings_fact(self.candidate.given)
        if config.registry.promote is None and differs:
            return "its settings differ from the champion's"
        return ""


def why_nothing_is_compared(champion: int, lines_are_known: bool) -> str:
    if not lines_are_known:
        return (
            f"it is unknown which lines version {champion} was trained on, because an older rnnlm registered it or "
            "corpus.digits differs, and no whole paragraph is new to both models"
        )
    return "no held-out line of the comparison is new to both models, because the text is very short or repeats itself"
