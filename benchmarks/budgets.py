"""Measure after how many epochs the ranking of the kinds of models changes, with one curve for each kind.

    python benchmarks/budgets.py FOLDER --home HOME [--kinds elman lstm …] [--picture FILE.png]

FOLDER has train.txt, valid.txt and test.txt. All kinds have two layers and 2 million parameters, matched as in `rnnlm
compare`. Each number of epochs has a separate training run, whose schedule ends after these epochs. Of two learning
rates, each kind is trained with the one that has the lower validation perplexity after the fewest epochs. The table
shows test perplexities. Finished runs are read again from --home, so processes with different --kinds can use the same
HOME at the same time.
"""

import argparse
from pathlib import Path

from untracked import untracked

from rnnlm.config import ModelKind, PipelineConfig
from rnnlm.config.kinds import KINDS
from rnnlm.config.presets import build_config
from rnnlm.display.plots import new_figure, set_titles
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.extensions.comparison.comparison_config import NAMES, CompareConfig
from rnnlm.extensions.comparison.comparison_plots import colour_of
from rnnlm.extensions.comparison.run_plan import matched_configs
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord
from rnnlm.storage.result_records import SplitScore
from rnnlm.training.training_run import run_training

PARAMETERS = 2_000_000
EPOCHS = (1, 3, 10)
RATES: tuple[float, ...] = (0.002, 0.005)
COMPARED: tuple[ModelKind, ...] = ("elman", "gru", "lstm", "min-gru", "min-lstm", "xlstm", "transformer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(COMPARED))
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    options.home.mkdir(parents=True, exist_ok=True)
    home = Home(options.home)
    dataset = prepare_dataset(home, config_of(options.folder, 1, RATES[0]))
    curves: dict[ModelKind, list[SplitScore]] = {}
    print("| kind | " + " | ".join(map(str, EPOCHS)) + " |\n|" + "---|" * (1 + len(EPOCHS)))
    for kind in options.kinds:
        curves[kind] = curve(home, dataset, options.folder, kind)
        print(row(NAMES[kind], [score.perplexity for score in curves[kind]]), flush=True)
    counts = next(iter(curves.values()))[0].counts
    assert counts is not None  # The evaluation of a network also scores an n-gram model for comparison.
    print(row(NAMES["kneser-ney"], [counts.perplexity] * len(EPOCHS)))
    if options.picture:
        draw(curves, counts.perplexity, options.picture)


def config_of(folder: Path, epochs: int, rate: float) -> PipelineConfig:
    settings = [
        "model.layers=2",
        f"training.epochs={epochs}",
        "training.precision=bfloat16",
        "training.dropout.inputs=0.2",
        "training.dropout.outputs=0.3",
        f"training.optimizer.learning_rate={rate}",
    ]
    return build_config("ptb", settings, str(folder))


def curve(home: Home, dataset: DatasetRecord, folder: Path, kind: ModelKind) -> list[SplitScore]:
    """Return the test scores of a kind of model, one for each number of training epochs."""
    scores: list[SplitScore] = []
    rates = RATES
    for epochs in EPOCHS:
        runs = {}
        for rate in rates:
            compared = CompareConfig(pipeline=config_of(folder, epochs, rate), models=(kind,), budget=PARAMETERS)
            config = matched_configs(compared, dataset)[kind]
            runs[rate] = run_training(home, config, dataset, untracked)
        best = min(runs, key=lambda rate: runs[rate].best_validation_perplexity)
        rates = (best,)
        scores.append(evaluate_run(home, dataset, runs[best], config.evaluation).scores["test"])
    return scores


def row(name: str, perplexities: list[float]) -> str:
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in perplexities) + " |"


def draw(curves: dict[ModelKind, list[SplitScore]], counts: float, picture: Path) -> None:
    figure, (axes,) = new_figure((7, 4.5))
    for kind, scores in curves.items():
        ys = [score.perplexity for score in scores]
        axes.loglog(EPOCHS, ys, color=colour_of(kind), marker="o", label=NAMES[kind])
    axes.axhline(counts, color=colour_of("kneser-ney"), linestyle="--", label=NAMES["kneser-ney"])
    axes.set_xticks(EPOCHS, list(map(str, EPOCHS)))
    axes.set_yticks([100, 120, 150, 200, 300], ["100", "120", "150", "200", "300"])
    axes.minorticks_off()
    set_titles(axes, "Test perplexity by budget", "epochs, each with its own schedule", "perplexity")
    axes.legend(frameon=False)
    figure.savefig(picture)


if __name__ == "__main__":
    main()
