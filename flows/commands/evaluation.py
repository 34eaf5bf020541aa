"""evaluate, explain, surprise, lm-eval: measure how well a model predicts text."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.command import SectionFields, Session, fields
from flows.commands.options import Corpus, Model, Set
from rnnlm.config import CorpusConfig, Section
from rnnlm.display.text_layout import columns
from rnnlm.errors import ConfigError, HomeError
from rnnlm.evaluation.score_tables import adaptation_rows, score_table
from rnnlm.extensions.adaptation.adaptation_config import CacheConfig, DynamicConfig
from rnnlm.extensions.harness.harness_config import HarnessConfig
from rnnlm.presets import build_config
from rnnlm.registry.model_lookup import corpus_settings, model_folder, run_model_folder

if TYPE_CHECKING:
    from rnnlm.evaluation.explanation import Explanation
    from rnnlm.extensions.harness.harness_run import HarnessRecord

OF_ONE_TEXT = ("source", "name", "sha256", "format", "column", "maximum_documents")  # settings of a corpus
DYNAMIC_OPTIONS = fields("rate", "decay", "scaled", segment="segment_length", prefix="dynamic-")
CACHE_OPTIONS = fields("size", "theta", "share", prefix="cache-")
TUNED_FIELDS = {"dynamic": ("rate", "decay"), "cache": ("size", "theta", "share")}  # chosen by --tune


def evaluate_command(
    session: Session,
    dynamic_settings: Annotated[DynamicConfig, DYNAMIC_OPTIONS],
    cache_settings: Annotated[CacheConfig, CACHE_OPTIONS],
    model: Model = None,
    corpus: Corpus = None,
    set: Set = None,
    split: Annotated[
        Literal["train", "valid", "test"] | None,
        typer.Option(
            metavar="train|valid|test", help="Default: test, or all of a text that the model was not trained on."
        ),
    ] = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Keep learning from the text just scored, in order.")
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache", help="Mix in the tokens that followed similar hidden states.")
    ] = False,
    interpolate: Annotated[
        Literal["kneser-ney"] | None,
        typer.Option(metavar="kneser-ney", help="Mix in a 5-gram model of the training split."),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose rate, decay, size, theta and share on the validation split.")
    ] = False,
    save_probabilities: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parquet file for the probability of each token, in the order of the text."),
    ] = None,
) -> None:
    """Measure a model's perplexity on a corpus.

    Without --corpus, on the corpus that it was trained on. Any corpus is read as the model's own was; --set
    corpus.… changes that.

    rnnlm evaluate
    rnnlm evaluate rnnlm-ptb --corpus ptb/ --dynamic --tune
    rnnlm evaluate --corpus my-text.txt --set corpus.undecodable=replace
    """
    check_adaptation_options("dynamic", dynamic, DYNAMIC_OPTIONS, dynamic_settings, tune)
    check_adaptation_options("cache", cache, CACHE_OPTIONS, cache_settings, tune)
    if tune and not (dynamic or cache):
        raise ConfigError("--tune needs --dynamic or --cache; --interpolate fits its share without it")
    if save_probabilities is not None and (dynamic or cache or interpolate):
        raise ConfigError(
            "--save-probabilities writes the model's own probabilities; leave out --dynamic, --cache and --interpolate"
        )
    if save_probabilities is not None and save_probabilities.suffix != ".parquet":
        raise ConfigError(f"--save-probabilities {save_probabilities}: expected a .parquet file")
    adaptations: dict[str, Any] = {
        "dynamic": dynamic_settings if dynamic else None,
        "cache": cache_settings if cache else None,
        "kneser_ney": interpolate is not None,
    }
    folder = model_folder(session.home, model)
    source = corpus_to_evaluate(folder, corpus, set or [])
    from rnnlm.evaluation.external_corpus import compare_on_corpus, score_corpus
    from rnnlm.extensions.adaptation.adaptation_table import Adaptations
    from rnnlm.reports.json_values import score_value

    if any(adaptations.values()):
        comparison = compare_on_corpus(session.home, folder, source, Adaptations(**adaptations, tune=tune), split)
        session.print_result("\n".join(columns(adaptation_rows(comparison))), comparison)
        return
    score = score_corpus(session.home, folder, source, split, save_probabilities)
    session.print_result("\n".join(columns(score_table(score))), score_value(score))


def corpus_to_evaluate(folder: Path, corpus: str | None, overrides: list[str]) -> CorpusConfig:
    """The corpus as the model's own was read, changed by --set; without --corpus, its own."""
    own = corpus_settings(folder)
    if corpus is None and "source" not in own:
        raise ConfigError("the settings that this model was trained with are not in this home; give --corpus")
    if corpus is not None:  # what describes one text, and not how a text is read
        own = {name: value for name, value in own.items() if name not in OF_ONE_TEXT}
    for override in overrides:
        if not override.startswith("corpus."):
            raise ConfigError(f"--set {override}: evaluate takes settings of the corpus, such as corpus.lowercase=true")
    defaults = [f"corpus.{name}={as_override(value)}" for name, value in own.items()]
    return build_config(None, [*defaults, *overrides], corpus).corpus


def as_override(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def check_adaptation_options(name: str, wanted: bool, options: SectionFields, settings: Section, tune: bool) -> None:
    """ConfigError for settings of an adaptation that is not asked for, or that --tune chooses itself."""
    for field in settings.model_fields_set:
        option = options.names[field]
        if not wanted:
            raise ConfigError(f"{option} is a setting of --{name}; add --{name}")
        if tune and field in TUNED_FIELDS[name]:
            raise ConfigError(f"--tune chooses {option} itself; leave out {option} or --tune")


def explain_command(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, such as a sentence in quotes.")],
    model: Model = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the state and the loss at each step (PNG).")
    ] = None,
) -> None:
    """Show how a model reads a text: tokens, probabilities, loss and state.

    Each line is one step: the token that the model reads, and the one after it, which it must predict.

    rnnlm explain 'Return the list.'
    rnnlm explain 'Return the list.' rnnlm-python-docs --picture state.png
    """
    folder = model_folder(session.home, model)
    from rnnlm.evaluation.explanation import explain
    from rnnlm.models.model_factory import load_model
    from rnnlm.models.training_provenance import read_training_provenance
    from rnnlm.reports.explanation_page import explanation_text, explanation_value
    from rnnlm.tokenizers.text_tokenizer import load_tokenizer

    loaded, tokenizer = load_model(folder), load_tokenizer(folder)
    explanation = explain(loaded, tokenizer, read_training_provenance(folder).cut, text)
    if picture is not None and explanation.steps:
        draw_state(explanation, picture)
    session.print_result(explanation_text(explanation), explanation_value(explanation))


def draw_state(explanation: "Explanation", picture: Path) -> None:
    from rnnlm.evaluation.explanation_plot import draw_explanation

    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw_explanation(explanation, picture)
    except OSError as error:
        raise HomeError(f"--picture {picture}: not writable ({error.strerror}); choose another file") from error


def surprise_command(
    session: Session,
    model: Model = None,
    pictures: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Copy the plots there.")] = None,
) -> None:
    """Show where a model's loss is high: sentence, position, frequency.

    rnnlm surprise --pictures plots
    """
    folder = run_model_folder(session.home, model)
    from rnnlm.extensions.surprise.surprise_measurement import surprise_of_model
    from rnnlm.extensions.surprise.surprise_page import surprise_page

    found = surprise_of_model(session.home, folder)
    if pictures is not None:
        copies = tuple(copy_picture(picture, pictures) for picture in found.pictures)
        found = found.model_copy(update={"pictures": copies})
    session.print_result(surprise_page(found).text(), found)


def copy_picture(picture: Path, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(picture, folder))
    except OSError as error:
        raise HomeError(f"--pictures {folder}: not writable ({error.strerror}); choose another folder") from error


def lm_eval_command(
    session: Session,
    config: Annotated[HarnessConfig, fields("tasks", "file", "limit", "fewshot", "batch_size")],
    model: Model = None,
) -> None:
    """Run EleutherAI's evaluation harness on a model (extra: lm-eval).

    rnnlm lm-eval rnnlm-python-docs --file my-text.txt
    rnnlm lm-eval rnnlm-python-docs --tasks blimp --limit 100
    """
    folder = model_folder(session.home, model)
    from rnnlm.extensions.harness.harness_run import run_harness

    record = run_harness(session.home, folder, config)
    session.print_result("\n".join(columns(harness_rows(record))), record)


def harness_rows(record: "HarnessRecord") -> list[dict[str, Any]]:
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
