"""Evaluate the models of a comparison and write the results to a folder of home.comparisons.

comparison.json      every figure
runs.parquet         one row per run
comparison.png       the plots
report.html          everything on one page (comparison_page.py)
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnnlm.config import ModelKind, PipelineConfig, result_settings
from rnnlm.config.moved_settings import flatten
from rnnlm.evaluation.count_shares import COMPARED_ORDER, COUNTED_TOKENS, count_training_split, split_log_probabilities
from rnnlm.evaluation.gradient_norms import input_gradient_norms
from rnnlm.evaluation.perplexity import SummedLosses, split_score
from rnnlm.evaluation.token_losses import stored_nll
from rnnlm.extensions.comparison.comparison_config import CompareConfig
from rnnlm.extensions.comparison.document_bootstrap import PairDifference, pair_differences, read_documents
from rnnlm.extensions.comparison.model_result import ModelResult, RunResult, Trial, loss_by_position
from rnnlm.extensions.comparison.run_plan import TunedSettings
from rnnlm.extensions.comparison.training_costs import TrainingCosts, measure_costs, training_flops_per_token
from rnnlm.models.model_factory import load_model
from rnnlm.models.parameter_count import count_parameters
from rnnlm.sequences.dataset_reader import StoredSplit
from rnnlm.sequences.windows import stored_windows
from rnnlm.storage.home import Home, atomic_file
from rnnlm.storage.json_results import write_json_once
from rnnlm.storage.records import SPLITS, DatasetRecord, Record, RunRecord, StageRecord
from rnnlm.storage.result_records import EvaluationRecord
from rnnlm.storage.stage_folders import RunFolder
from rnnlm.storage.stages import stage, stage_key
from rnnlm.training.history import read_series

GRADIENT_STEPS, GRADIENT_ROWS = 60, 64
STATE_BYTES = 4  # The number of bytes of each float32 number in a recurrent state.


class TrainedModel(Record):
    """The training runs of one kind of model, one per seed, with the settings that its tuning trials selected."""

    config: PipelineConfig  # The configuration of the training run with the first seed.
    trials: tuple[Trial, ...]
    settings: TunedSettings
    runs: tuple[RunRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]


class ModelComparison(StageRecord):
    key: str  # A digest of all inputs and settings of the comparison. It changes if any of them changes.
    folder: Path
    corpus_name: str
    dataset_id: str
    settings: dict[str, Any]
    vocabulary_size: int
    test_tokens: int
    models: tuple[ModelResult, ...]  # The results of all models, the best model first.
    pairs: tuple[PairDifference, ...]
    # The validation perplexity for which the time to reach it is reported, or None if only the n-gram model is
    # compared.
    target_perplexity: float | None
    # Warnings that the scores are misleading because text was copied between splits.
    score_warnings: tuple[str, ...] = ()

    @property
    def figures(self) -> Path:
        return self.folder / "comparison.json"

    @property
    def picture(self) -> Path:
        return self.folder / "comparison.png"

    @property
    def page(self) -> Path:
        return self.folder / "report.html"


def stored_costs(
    home: Home, configs: dict[ModelKind, PipelineConfig], dataset: DatasetRecord, seconds: float, *, force: bool = False
) -> dict[ModelKind, TrainingCosts]:
    """Return the training costs of these kinds of models, which are measured once and then read from a file."""
    settings = {
        kind: [result_settings(config.model), result_settings(config.training)] for kind, config in configs.items()
    }
    key = stage_key("training-costs", dataset=dataset.dataset_id, settings=settings, seconds=seconds)
    home.make(home.comparisons)

    def measure() -> list[dict[str, Any]]:
        return [costs.model_dump() for costs in measure_costs(list(configs.values()), dataset, seconds)]

    value, _ = write_json_once(home, home.comparisons / f"costs-{key[:16]}.json", key, measure, force=force)
    return dict(zip(configs, (TrainingCosts(**costs) for costs in value), strict=True))


@stage("comparison")
def compare_models(
    home: Home,
    config: CompareConfig,
    dataset: DatasetRecord,
    trained: dict[ModelKind, TrainedModel],
    costs: dict[ModelKind, TrainingCosts],
    *,
    force: bool = False,
) -> ModelComparison:
    """Compare all models, and all pairs of models, on the test split.

    A comparison that is already stored is returned.
    """
    runs = {kind: [run.run_id for run in model.runs] for kind, model in trained.items()}
    settings = shown_settings(config)
    key = stage_key("comparison", dataset=dataset.dataset_id, runs=runs, settings=settings)
    folder = home.comparisons / f"{dataset.corpus_name}-{key[:8]}"
    home.make(folder)

    def build() -> dict[str, Any]:
        documents = read_documents(dataset, "test")
        results: list[ModelResult] = []
        nats: dict[str, np.ndarray] = {}
        for model in dict.fromkeys(config.models):
            if model == "kneser-ney":
                result, losses = kneser_ney_result(dataset)
            else:
                result, losses = trained_result(home, dataset, model, trained[model], costs[model])
            results.append(result)
            nats[model] = np.mean([documents.total_nats(nll) for nll in losses], axis=0)
        results.sort(key=lambda result: result.bits_per_byte)
        nats = {result.model: nats[result.model] for result in results}
        ends = [result.final_validation_perplexity for result in results if result.costs]
        return {
            "models": [result.model_dump(mode="json") for result in results],
            "pairs": [pair.model_dump() for pair in pair_differences(nats, documents.byte_counts)],
            "target_perplexity": config.target_perplexity or max(ends, default=None),
        }

    value, skipped = write_json_once(home, folder / "comparison.json", key, build, force=force)
    comparison = ModelComparison(
        **value,
        key=key,
        folder=folder,
        corpus_name=dataset.corpus_name,
        dataset_id=dataset.dataset_id,
        settings=settings,
        vocabulary_size=dataset.vocabulary_size,
        test_tokens=dataset.predicted_tokens["test"],
        skipped=skipped,
    )
    with atomic_file(folder / "runs.parquet") as partial:
        pq.write_table(pa.Table.from_pylist(run_rows(comparison)), partial)
    return comparison


def shown_settings(config: CompareConfig) -> dict[str, Any]:
    """Return the comparison's own settings and the changed settings of the pipeline, by dotted path."""
    default = flatten(PipelineConfig().model_dump(mode="json"))
    pipeline = flatten(config.pipeline.model_dump(mode="json"))
    changed = {path: value for path, value in pipeline.items() if path != "force" and default.get(path) != value}
    return config.model_dump(mode="json", exclude={"pipeline"}) | changed


def trained_result(
    home: Home, dataset: DatasetRecord, kind: ModelKind, trained: TrainedModel, costs: TrainingCosts
) -> tuple[ModelResult, list[np.ndarray]]:
    """Return the result of one kind of model, and the test losses of each of its runs in nats, (predicted tokens,)."""
    config = trained.config
    results = [
        RunResult(
            run_id=run.run_id,
            seed=seed,
            trained_tokens=run.trained_tokens,
            validation=evaluation.scores["valid"],
            test=evaluation.scores["test"],
            curve=tuple(zip(*read_series(RunFolder(run.folder).history, "validation_perplexity"), strict=True)),
            mlflow_run_id=run.mlflow_run_id,
        )
        for seed, (run, evaluation) in enumerate(
            zip(trained.runs, trained.evaluations, strict=True), start=config.training.seed
        )
    ]
    losses = [stored_nll(home, dataset, run, "test", config.evaluation.batch_size) for run in trained.runs]
    counted = count_parameters(config.model, dataset.vocabulary_size)
    model = load_model(trained.runs[0].model_folder)
    sampled = config.training.loss.sampled_classes if config.training.loss.is_sampled else None
    norms = input_gradient_norms(model, *stored_windows(dataset, "valid", GRADIENT_STEPS + 1, GRADIENT_ROWS)).tolist()
    result = ModelResult(
        model=kind,
        settings=trained.settings,
        trials=trained.trials,
        hidden_size=config.model.units,
        parameters=counted.total,
        embedding_parameters=counted.embedding,
        state_bytes=STATE_BYTES * model.stack.initial_state(1).numel(),
        training_flops_per_token=training_flops_per_token(config.model, dataset.vocabulary_size, sampled),
        costs=costs,
        runs=tuple(results),
        loss_by_position=loss_by_position(StoredSplit(dataset, "test"), np.mean(losses, axis=0)),
        input_gradients=tuple(norm / (norms[0] or 1.0) for norm in norms),
    )
    return result, losses


def kneser_ney_result(dataset: DatasetRecord) -> tuple[ModelResult, list[np.ndarray]]:
    """Return the result of a 5-gram model that is counted on the last COUNTED_TOKENS training tokens.

    The result does not depend on a seed. The state of the 5-gram model consists of the last four tokens.
    """
    counts, _ = count_training_split(dataset, COMPARED_ORDER)
    nll = {split: -split_log_probabilities(counts, dataset, split)[0] for split in SPLITS[1:]}
    validation, test = (split_score(dataset, split, SummedLosses(float(nll[split].sum()))) for split in SPLITS[1:])
    tokens = min(dataset.predicted_tokens["train"], COUNTED_TOKENS)
    run = RunResult(
        run_id=f"kneser-ney-{dataset.dataset_id}",
        seed=0,
        trained_tokens=tokens,
        validation=validation,
        test=test,
        curve=((float(tokens), validation.perplexity),),
    )
    result = ModelResult(
        model="kneser-ney",
        parameters=counts.stored_counts,
        state_bytes=STATE_BYTES * (COMPARED_ORDER - 1),
        runs=(run,),
        loss_by_position=loss_by_position(StoredSplit(dataset, "test"), nll["test"]),
    )
    return result, [nll["test"]]


def run_rows(comparison: ModelComparison) -> list[dict[str, Any]]:
    """Return the rows of runs.parquet, one flat row per run."""
    return [run_row(comparison, result, run) for result in comparison.models for run in result.runs]


def run_row(comparison: ModelComparison, result: ModelResult, run: RunResult) -> dict[str, Any]:
    settings, costs = result.settings, result.costs
    return {
        "corpus": comparison.corpus_name,
        "model": result.model,
        "seed": run.seed,
        "run_id": run.run_id,
        "hidden_size": result.hidden_size,
        "parameters": result.parameters,
        "embedding_parameters": result.embedding_parameters,
        **(settings.model_dump() if settings else dict.fromkeys(TunedSettings.model_fields)),
        "trained_tokens": run.trained_tokens,
        "validation_perplexity": run.validation.perplexity,
        "test_perplexity": run.test.perplexity,
        "test_bits_per_byte": run.test.bits_per_byte,
        "state_bytes": result.state_bytes,
        "training_flops_per_token": result.training_flops_per_token,
        **(costs.model_dump() if costs else dict.fromkeys(TrainingCosts.model_fields)),
    }
