"""evaluate, surprise, score, lm-eval: measure how well a model predicts text."""

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.commands.parser import (
    CORPUS,
    MODEL,
    Commands,
    PrintResult,
    add_command,
    add_config_options,
    config_from,
    given_values,
    show_warnings,
)
from rnnlm.config import CorpusConfig
from rnnlm.errors import ConfigError, HomeError
from rnnlm.evaluation.ngram.ngram_config import NgramConfig
from rnnlm.evaluation.test_time_adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.harness.harness_config import HarnessConfig
from rnnlm.home import Home
from rnnlm.presets import validate_section
from rnnlm.records import HarnessRecord
from rnnlm.scoring.scoring_config import ScoringConfig

if TYPE_CHECKING:
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import Adaptations

TUNED_FIELDS = {"dynamic": ("rate", "decay"), "cache": ("theta", "share")}  # chosen by --tune


def add_evaluation_commands(commands: Commands) -> None:
    evaluate = add_command(commands, "evaluate", evaluate_command)
    evaluate.add_argument("model", metavar="MODEL", help=MODEL)
    evaluate.add_argument("--corpus", required=True, help=CORPUS)
    evaluate.add_argument(
        "--split",
        choices=("train", "valid", "test"),
        help="default: test, or all of a text that the model was not trained on",
    )
    evaluate.add_argument("--dynamic", action="store_true", help="keep learning from the text just scored, in order")
    add_config_options(
        evaluate,
        "dynamic",
        DynamicConfig,
        "rate",
        "decay",
        "scaled",
        segment="segment_length",
        prefix="dynamic-",
    )
    evaluate.add_argument("--cache", action="store_true", help="mix in the tokens that followed similar hidden states")
    add_config_options(evaluate, "cache", CacheConfig, "size", "theta", "share", prefix="cache-")
    evaluate.add_argument("--interpolate", choices=("kneser-ney",), help="mix in a 5-gram model of the training split")
    tuned = ", ".join(field for fields in TUNED_FIELDS.values() for field in fields)
    evaluate.add_argument("--tune", action="store_true", help=f"choose {tuned} on the validation split")

    surprise = add_command(commands, "surprise", surprise_command)
    surprise.add_argument("model", metavar="MODEL", help=f"{MODEL}; its run must be in this home")
    surprise.add_argument("--pictures", metavar="FOLDER", type=Path, help="copy the plots there")

    score = add_command(commands, "score", score_command)
    add_config_options(
        score,
        "scoring",
        ScoringConfig,
        *("input", "output", "model", "query", "column", "id_column", "document"),
        *("batch_size", "shard_documents", "device", "precision", "drift_threshold", "force"),
        surprising="surprising_tokens",
        no_text="keep_text",
    )

    lm_eval = add_command(commands, "lm-eval", lm_eval_command)
    lm_eval.add_argument("model", metavar="MODEL", help=MODEL)
    lm_eval.add_argument(
        "--tasks", dest="lm-eval.tasks", metavar="TASK,…", help=HarnessConfig.model_fields["tasks"].description
    )
    add_config_options(lm_eval, "lm-eval", HarnessConfig, "file", "limit", "fewshot", "batch_size")


def evaluate_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Measure a model's perplexity on a corpus.

    rnnlm evaluate models:/rnnlm-python-docs@champion --corpus my-text.txt
    rnnlm evaluate models:/rnnlm-ptb@champion --corpus ptb/ --dynamic --tune
    """
    show_warnings()
    adaptation = requested_adaptation(options)
    from rnnlm.evaluation.external_corpus import compare_on_corpus, score_corpus
    from rnnlm.evaluation.score_tables import adaptation_rows, score_row
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.text_layout import columns

    corpus = validate_section("corpus", CorpusConfig, {"source": options.corpus})
    folder = model_folder(home, options.model)
    if adaptation is not None:
        comparison = compare_on_corpus(home, folder, corpus, adaptation, options.split)
        print_result("\n".join(columns(adaptation_rows(comparison))), comparison.model_dump(mode="json"))
        return
    score = score_corpus(home, folder, corpus, options.split)
    print_result("\n".join(columns([score_row(score)])), score.model_dump(mode="json"))


def requested_adaptation(options: argparse.Namespace) -> "Adaptations | None":
    """The requested test-time adaptation, or None. ConfigError for options that do not go together."""
    for section, tuned in TUNED_FIELDS.items():
        for field in given_values(options, section):
            option = f"--{section}-{field.removesuffix('_length')}"
            if not getattr(options, section):
                raise ConfigError(f"{option} is a setting of --{section}; add --{section}")
            if options.tune and field in tuned:
                raise ConfigError(f"--tune chooses {option} itself; leave out {option} or --tune")
    if options.tune and not (options.dynamic or options.cache):
        raise ConfigError("--tune needs --dynamic or --cache; --interpolate fits its share without it")
    if not (options.dynamic or options.cache or options.interpolate):
        return None
    from rnnlm.evaluation.test_time_adaptation.adaptation_table import Adaptations

    return Adaptations(
        config_from(options, "dynamic", DynamicConfig) if options.dynamic else None,
        config_from(options, "cache", CacheConfig) if options.cache else None,
        NgramConfig() if options.interpolate else None,
        options.tune,
    )


def surprise_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Show where a model's loss is high: sentence, position, frequency.

    rnnlm surprise models:/rnnlm-python-docs@champion --pictures plots
    """
    show_warnings()
    from rnnlm.evaluation.surprise.surprise_measurement import surprise_of_model
    from rnnlm.registry.model_lookup import run_model_folder
    from rnnlm.reports.surprise_page import surprise_text

    found = surprise_of_model(home, run_model_folder(home, options.model))
    if options.pictures is not None:
        copies = tuple(copy_picture(picture, options.pictures) for picture in found.pictures)
        found = found.model_copy(update={"pictures": copies})
    print_result(surprise_text(found), found.model_dump(mode="json"))


def copy_picture(picture: Path, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(picture, folder))
    except OSError as error:
        raise HomeError(f"--pictures {folder}: not writable ({error.strerror}); choose another folder") from error


def score_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Score many texts, to filter or rank them or detect drift.

    rnnlm score --input 'inbox/*.txt' --output scores.parquet
    """
    config = config_from(options, "scoring", ScoringConfig)
    from rnnlm.scoring.input_files import find_inputs
    from rnnlm.scoring.scoring_model import find_model

    find_inputs(config)  # refuse what cannot be right before a Prefect server is started for it
    find_model(home, config.model)
    from flows.operations.flow_runner import run_flow
    from flows.score_flow import score_flow
    from rnnlm.reports.scoring_page import scoring_text

    scored = run_flow(home, score_flow, config)
    print_result(scoring_text(config, scored.scoring, scored.drift), scored.model_dump(mode="json"))


def lm_eval_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Run EleutherAI's evaluation harness on a model (extra: lm-eval).

    rnnlm lm-eval models:/rnnlm-python-docs@champion --file my-text.txt
    rnnlm lm-eval models:/rnnlm-python-docs@champion --tasks blimp --limit 100
    """
    show_warnings()
    config = config_from(options, "lm-eval", HarnessConfig)
    from rnnlm.harness.harness_run import run_harness
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.text_layout import columns

    record = run_harness(home, model_folder(home, options.model), config)
    print_result("\n".join(columns(harness_rows(record))), record.model_dump(mode="json"))


def harness_rows(record: HarnessRecord) -> list[dict[str, Any]]:
    """One row per metric."""
    return [
        {
            "task": row.task,
            "metric": row.metric,
            "filter": row.filter,
            "documents": f"{row.documents:,}",
            "value": f"{row.value:.4f}",
            "std. error": "" if row.standard_error is None else f"{row.standard_error:.4f}",
        }
        for row in record.metrics
    ]
