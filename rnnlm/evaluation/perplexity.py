"""Perplexity and bits per byte of a model on whole splits, compared with baselines."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rnnlm.config import EvaluationConfig, result_settings
from rnnlm.errors import DatasetError
from rnnlm.evaluation.baselines import baselines, split_facts
from rnnlm.evaluation.count_shares import COMPARED_ORDER, count_training_split
from rnnlm.evaluation.token_losses import network_nll_of_split, stored_network_nll, stored_nll, with_contexts
from rnnlm.metrics import Score, perplexity
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.mixture import CountMixture, load_mixture
from rnnlm.sequences.batches import RowSource
from rnnlm.sequences.dataset_reader import StoredSplit, connect
from rnnlm.sequences.segmentation import Mode
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import DatasetRecord, RunRecord, Split
from rnnlm.storage.result_records import CountsScore, EvaluationRecord, PartScore, SplitScore
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import stage, stage_key


@dataclass(frozen=True)
class SummedLosses:
    """The losses in nats of the model and of its parts, summed over a split."""

    model: float
    # The loss of the network, or None if the model is a network without an n-gram model.
    network: float | None = None
    counts: float | None = None  # The loss of the n-gram model, or None if there is no n-gram model.


@stage("evaluation")
def evaluate_run(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, *, force: bool = False
) -> EvaluationRecord:
    """Score the run's model, its parts and the baselines on each configured split.

    The result is stored in the run's folder. An n-gram model that is mixed or compared with a network is scored only on
    held-out splits, because it was trained on the training split.
    """

    def build() -> dict[str, object]:
        mixture, seconds = load_mixture(run.model_folder, dataset.vocabulary_size), run.counting_seconds
        if mixture is None:  # An n-gram model is trained for comparison, because the model has none.
            counts, seconds = count_training_split(dataset, COMPARED_ORDER)
            mixture = CountMixture(counts, np.zeros(COMPARED_ORDER))
        scores: dict[str, object] = {}
        for split in config.splits:
            alone = split == "train" and not mixture.is_alone
            network_nll = stored_network_nll(home, dataset, run, split, config.batch_size, force=force)
            sums = summed_losses(None if alone else mixture, [network_nll], StoredSplit(dataset, split), dataset.mode)
            score = split_score(dataset, split, sums, mixture, seconds)
            if config.first_rows is not None:
                nll_nats = network_nll if alone else stored_nll(home, dataset, run, split, config.batch_size)
                score = score.model_copy(update=score_first_rows(dataset, split, nll_nats, config.first_rows))
            scores[split] = score.model_dump()
        return scores

    key = stage_key("evaluation", run=run.run_id, dataset=dataset.dataset_id, **result_settings(config))
    value, skipped = write_json_once(home, RunFolder(run.folder).evaluation_path, key, build, force=force)
    # The scores are stored by split, and returned in the configured order.
    scores = {split: SplitScore(**value[split]) for split in config.splits}
    return EvaluationRecord(scores=scores, skipped=skipped)


def score_split(
    model: LanguageModel, dataset: DatasetRecord, split: Split, batch_size: int = 64, *, counted: bool = False
) -> SplitScore:
    """Return the scores of the model, its parts and the baselines on a whole split.

    If `counted` is true, the n-gram model was trained on this split, so only the network is scored if there is one.
    """
    source, mixture = StoredSplit(dataset, split), model.mixture
    if counted and mixture is not None and not mixture.is_alone:
        mixture = None
    parts = network_nll_of_split(model, source, dataset.mode, batch_size)
    return split_score(dataset, split, summed_losses(mixture, parts, source, dataset.mode), mixture)


def summed_losses(
    mixture: CountMixture | None, parts: Iterable[np.ndarray], source: RowSource, mode: Mode
) -> SummedLosses:
    """Return the sums of the losses of a model's parts.

    `parts` contains the network's losses in nats, in the order of the text.
    """
    if mixture is None:
        return SummedLosses(sum(float(nll_nats.sum(dtype=np.float64)) for nll_nats in parts))
    sums = np.zeros(3)
    for nll_nats, before, words in with_contexts(parts, source, mode, mixture.context_length):
        both, of_counts = mixture.mixed_and_counts(nll_nats, before, words)
        sums += [-both.sum(), nll_nats.sum(dtype=np.float64), -of_counts.sum()]
    model, network, counts = sums.tolist()
    if mixture.is_alone:
        return SummedLosses(model)
    return SummedLosses(model, network if mixture.uses_counts else None, counts)


def score_first_rows(dataset: DatasetRecord, split: Split, nll_nats: np.ndarray, rows: int) -> dict[str, object]:
    """Return the fields of SplitScore for the first `rows` rows of a split.

    `nll_nats`, (predicted tokens,), contains the losses of the whole split. If the split has fewer rows, all rows are
    used.
    """
    with connect(dataset) as connection:
        (row,) = table(connection, "queries/measure_tokens_before", {"split": split, "row": rows})
    nll_nats_per_token = float(nll_nats[: row["tokens"]].mean(dtype=np.float64))
    return {"first_rows": rows, "first_rows_perplexity": perplexity(nll_nats_per_token)}


def split_score(
    dataset: DatasetRecord,
    split: Split,
    sums: SummedLosses,
    counted: CountMixture | None = None,
    counting_seconds: float | None = None,
) -> SplitScore:
    """Return the score of a split. Raise DatasetError if the split has no token to predict.

    `counted` is the n-gram model to which sums.counts belongs.
    """
    facts = split_facts(dataset, split)
    if not facts.predicted_tokens:
        raise DatasetError(f"{dataset.folder}: the {split} split has no token to predict")

    def scored(summed_nll_nats: float) -> tuple[Score, dict[str, float]]:
        score = facts.score(summed_nll_nats)
        return score, {"perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte}

    score, figures = scored(sums.model)
    parts: dict[str, PartScore] = {}
    if sums.network is not None:
        parts["network"] = PartScore(**scored(sums.network)[1])
    if counted is not None and sums.counts is not None:
        order = counted.counts.order
        parts["counts"] = CountsScore(**scored(sums.counts)[1], order=order, seconds=counting_seconds)
    name = "network" if sums.network is None else "mixed"
    return SplitScore(
        split=split,
        model=f"{counted.counts.order}-gram counts" if counted is not None and counted.is_alone else name,
        tokens=score.tokens,
        nll_nats_per_token=score.nll_nats_per_token,
        unknown_rate=score.unknown_rate,
        **figures,
        **vars(baselines(dataset, split)),
        **parts,
    )
