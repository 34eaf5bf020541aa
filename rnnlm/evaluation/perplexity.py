"""Perplexity and bits per byte of a model on whole splits, beside the baselines."""

from collections.abc import Callable

import numpy as np

from rnnlm.config import EvaluationConfig, result_settings
from rnnlm.errors import DatasetError
from rnnlm.evaluation.baselines import SplitFacts, baselines, split_facts
from rnnlm.evaluation.count_mixture import CountMixture, mix_with_counts
from rnnlm.evaluation.token_losses import nll_of_split, stored_nll
from rnnlm.home import Home
from rnnlm.metrics import Score, perplexity
from rnnlm.models.language_model import LanguageModel
from rnnlm.records import CountsScore, DatasetRecord, EvaluationRecord, RunRecord, Split, SplitScore
from rnnlm.sequences.dataset_reader import StoredSplit, connect
from rnnlm.sequences.sql_tables import table
from rnnlm.stages import stage, stage_key, write_json_once


@stage("evaluation")
def evaluate_run(
    home: Home, dataset: DatasetRecord, run: RunRecord, config: EvaluationConfig, *, force: bool = False
) -> EvaluationRecord:
    """The run's model on each configured split, kept in the run's folder."""

    def build() -> dict[str, object]:
        def summed_nll(split: Split) -> float:
            return float(stored_nll(home, dataset, run, split, config.batch_size, force=force).sum(dtype=np.float64))

        scores = {split: split_score(dataset, split, summed_nll) for split in config.splits}
        if config.counts:
            held_out: tuple[Split, ...] = ("valid", "test")
            nll = {split: stored_nll(home, dataset, run, split, config.batch_size) for split in held_out}
            mixture = mix_with_counts(home, dataset, config.counts, nll)
            for split in held_out:
                scores[split] = scores[split].model_copy(update={"counts": counts_score(dataset, split, mixture)})
        if config.first_rows is not None:
            for split in config.splits:
                nll_nats = stored_nll(home, dataset, run, split, config.batch_size)
                scores[split] = scores[split].model_copy(update=score_first_rows(dataset, split, nll_nats, config))
        return {split: score.model_dump() for split, score in scores.items()}

    key = stage_key("evaluation", run=run.run_id, dataset=dataset.dataset_id, **result_settings(config))
    value, skipped = write_json_once(home, run.folder / "evaluation.json", key, build, force=force)
    scores = {split: SplitScore(**score) for split, score in value.items()}
    return EvaluationRecord(scores=scores, skipped=skipped)


def score_split(model: LanguageModel, dataset: DatasetRecord, split: Split, batch_size: int = 64) -> SplitScore:
    """Perplexity, bits per byte and unknown rate of a whole split, beside the baselines."""

    def summed_nll(split: Split) -> float:
        parts = nll_of_split(model, StoredSplit(dataset, split), dataset.mode, batch_size)
        return sum(float(part.sum(dtype=np.float64)) for part in parts)

    return split_score(dataset, split, summed_nll)


def score_first_rows(
    dataset: DatasetRecord, split: Split, nll_nats: np.ndarray, config: EvaluationConfig
) -> dict[str, object]:
    """Fields of SplitScore. nll_nats: (predicted tokens,) of the whole split; a shorter split counts whole."""
    place = {"split": split, "row": config.first_rows}
    with connect(dataset) as connection:
        (row,) = table(connection, "queries/measure_tokens_before", place)
    nll_nats_per_token = float(nll_nats[: row["tokens"]].mean(dtype=np.float64))
    return {"first_rows": config.first_rows, "first_rows_perplexity": perplexity(nll_nats_per_token)}


def counts_score(dataset: DatasetRecord, split: Split, mixture: CountMixture) -> CountsScore:
    facts = split_facts(dataset, split)
    alone, both = (score_of(facts, nll[split]) for nll in (mixture.counts_nll_nats, mixture.mixed_nll_nats))
    return CountsScore(
        order=len(mixture.shares),
        perplexity=alone.perplexity,
        bits_per_byte=alone.bits_per_byte,
        mixed_perplexity=both.perplexity,
        mixed_bits_per_byte=both.bits_per_byte,
        shares=mixture.shares,
        seconds=mixture.seconds,
    )


def score_of(facts: SplitFacts, summed_nll_nats: float) -> Score:
    """Of a whole split."""
    return Score(
        summed_nll_nats=summed_nll_nats,
        tokens=facts.predicted_tokens,
        byte_count=facts.byte_count,
        unknown_tokens=facts.unknown_tokens,
        restoration_bits=facts.restoration_bits,
    )


def split_score(dataset: DatasetRecord, split: Split, summed_nll: Callable[[Split], float]) -> SplitScore:
    """summed_nll: a split's summed loss in nats. DatasetError if the split predicts nothing."""
    facts = split_facts(dataset, split)
    if not facts.predicted_tokens:
        raise DatasetError(f"{dataset.folder}: the {split} split holds no token to predict")
    score = score_of(facts, summed_nll(split))
    reference = baselines(dataset, split)
    return SplitScore(
        split=split,
        tokens=score.tokens,
        nll_nats_per_token=score.nll_nats_per_token,
        perplexity=score.perplexity,
        bits_per_byte=score.bits_per_byte,
        unknown_rate=score.unknown_rate,
        uniform_perplexity=reference.uniform_perplexity,
        unigram_perplexity=reference.unigram_perplexity,
    )
