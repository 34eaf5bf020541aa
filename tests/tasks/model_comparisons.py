"""A small comparison of models: two kinds with one run each, beside the count-based model."""

from rnnlm.config import ModelKind
from rnnlm.lab.comparison.comparison_config import CompareConfig
from rnnlm.lab.comparison.model_comparison import TrainedModel
from rnnlm.lab.comparison.run_plan import matched_configs, trial_settings
from rnnlm.lab.comparison.training_costs import TrainingCosts
from rnnlm.storage.records import DatasetRecord
from tasks.evaluation import evaluate_perplexity
from tasks.training import train_model
from tests.configs import plain_config

CONFIG = CompareConfig(
    pipeline=plain_config({"model.hidden_size": 8, "training.epochs": 1}),
    models=("elman", "min-gru", "kneser-ney"),
    seeds=1,
)
COSTS = TrainingCosts(tokens_per_second=1_000.0, peak_mebibytes=500.0, milliseconds_per_token=2.0)


def trained_models(dataset: DatasetRecord) -> dict[ModelKind, TrainedModel]:
    trained = {}
    for kind, config in matched_configs(CONFIG, dataset).items():
        run = train_model.fn(config, dataset)
        evaluation = evaluate_perplexity.fn(dataset, run, config.evaluation)
        settings = trial_settings(config, 1)[0]
        trained[kind] = TrainedModel(
            config=config, trials=(), settings=settings, runs=(run,), evaluations=(evaluation,)
        )
    return trained


def costs_of(trained: dict[ModelKind, TrainedModel]) -> dict[ModelKind, TrainingCosts]:
    return dict.fromkeys(trained, COSTS)
