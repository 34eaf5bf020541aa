"""Candidate against champion, from the models to the evidence."""

from pathlib import Path

from rnnlm.config import RegistryConfig
from rnnlm.evaluation.paired.bootstrap import measure_evidence
from rnnlm.evaluation.paired.holdout_documents import common_ground
from rnnlm.evaluation.paired.paired_losses import Contestant, write_losses
from rnnlm.records import DatasetRecord, Evidence


def compare_models(
    candidate: Contestant,
    champion: Contestant,
    dataset: DatasetRecord,
    corpus_folder: Path,
    known_digests: list[Path],
    losses: Path,
    config: RegistryConfig,
    comparison: int = 1,
) -> Evidence | None:
    """Both on the validation documents of the candidate's dataset, less those that the training of either has seen.

    comparison: the how-manieth candidate this champion is compared with. Writes the losses of every document to the
    Parquet file `losses`. None if no document is left.
    """
    documents = common_ground(dataset, known_digests)
    if not documents:
        return None
    contestants = {"candidate": candidate, "champion": champion}
    write_losses(contestants, documents, corpus_folder, losses)
    return measure_evidence(losses, config, comparison)
