"""Measure how well a model predicts text with `rnnlm evaluate`, and show how it reads a text with `rnnlm explain`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.command import Session
from flows.commands.option_groups import AddedFields
from flows.commands.options import Corpus, Model, Set
from rnnlm.config import CorpusConfig
from rnnlm.config.presets import build_config
from rnnlm.corpora.current_text import TEXT_SETTINGS
from rnnlm.corpora.download import StoredText
from rnnlm.corpora.source_names import absolute_source
from rnnlm.display.text_layout import columns
from rnnlm.errors import ConfigError, HomeError
from rnnlm.evaluation.score_tables import score_table
from rnnlm.evaluation.variants import ModelVariants
from rnnlm.models.training_provenance import read_training_provenance
from rnnlm.registry.model_lookup import corpus_settings, model_folder
from rnnlm.storage.home import expanded

if TYPE_CHECKING:
    from rnnlm.evaluation.explanation import Explanation

HEADING = "Measure"
# Settings of a corpus that describe a particular text. They do not apply to another text that is scored.
OF_ONE_TEXT = ("source", "name", "sha256", "format", "column", "maximum_documents")


def evaluate_command(
    session: Session,
    model: Model = None,
    corpus: Corpus = None,
    set: Set = None,
    split: Annotated[
        Literal["train", "valid", "test"] | None,
        typer.Option(
            metavar="train|valid|test",
            help="Split to score. Default: test, or the whole text if the model was not trained on it.",
        ),
    ] = None,
    save_probabilities: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Parquet file to which the probability of each token is written, in the order of the text.",
        ),
    ] = None,
    variants: Annotated[tuple[Any, ...], AddedFields("variants")] = (),
) -> None:
    """Measure a model's perplexity on a corpus.

    Without --corpus, the corpus that the model was trained on is used. Any corpus is read with the settings of the
    model's own corpus, which --set corpus.… can change.

    rnnlm evaluate
    rnnlm evaluate rnnlm-ptb --corpus ptb/ --dynamic --tune
    rnnlm evaluate --corpus my-text.txt --set corpus.undecodable=replace
    """
    wanted: list[ModelVariants] = [variant for variant in variants if variant.is_wanted()]
    if save_probabilities is not None and wanted:
        raise ConfigError(
            "--save-probabilities writes the probabilities of the model without adaptation;\n"
            "leave out --dynamic, --cache and --interpolate"
        )
    if save_probabilities is not None and save_probabilities.suffix != ".parquet":
        raise ConfigError(f"--save-probabilities {save_probabilities}: expected a .parquet file")
    folder = model_folder(session.home, model)
    source = corpus_to_evaluate(folder, corpus, set or [])
    if wanted:
        table = wanted[0].measure(session.home, folder, source, split)
        session.print_result("\n".join(columns(table.rows)), table)
        return
    from rnnlm.evaluation.external_corpus import score_corpus
    from rnnlm.reports.json_values import score_value

    score = score_corpus(session.home, folder, source, split, save_probabilities)
    session.print_result("\n".join(columns(score_table(score))), score_value(score))


def corpus_to_evaluate(folder: Path, corpus: str | None, overrides: list[str]) -> CorpusConfig:
    """Return the corpus to evaluate, with the settings of the model's own corpus, as changed by --set.

    Without --corpus, it is the model's own text, which is found even if it was moved. If --set changes how this text is
    read, raise ConfigError for a relative path, because it may name another text in the current folder.
    """
    own = corpus_settings(folder)
    if corpus is None and "source" not in own:
        raise ConfigError("the settings that this model was trained with are not in this home; give --corpus")
    if corpus is not None:  # The settings for reading a text are kept, but not those that describe a particular text.
        own = {name: value for name, value in own.items() if name not in OF_ONE_TEXT}
    for override in overrides:
        if not override.startswith("corpus."):
            raise ConfigError(
                f"--set {override}: evaluate accepts only settings of the corpus, such as corpus.lowercase=true"
            )
    defaults = [f"corpus.{name}={as_override(value)}" for name, value in own.items()]
    config = build_config(None, [*defaults, *overrides], corpus).corpus
    if corpus is not None:
        return config
    as_trained = build_config(None, defaults).corpus
    changed = [name for name in ("source", *TEXT_SETTINGS) if getattr(config, name) != getattr(as_trained, name)]
    if not changed:
        digest = read_training_provenance(folder).corpus_digest
        return StoredText.model_construct(**dict(config), text_digest=digest)
    source = config.source
    if "source" not in changed and absolute_source(source) != source and not expanded(source).is_absolute():
        raise ConfigError(
            f"--set corpus.{changed[0]} reads the text again, but in this folder {source} may be another text;\n"
            "give the path of the right text: --corpus TEXT"
        )
    return config


def as_override(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def explain_command(
    session: Session,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text that the model reads, such as a sentence in quotes.")
    ],
    model: Model = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PNG file for a plot of the state and the loss at each step.")
    ] = None,
) -> None:
    """Show how a model reads a text: tokens, probabilities, loss and state.

    Each line shows one step, with the token that the model reads and the next token, which it must predict.

    rnnlm explain 'Return the list.'
    rnnlm explain 'Return the list.' rnnlm-python-docs --picture state.png
    """
    folder = model_folder(session.home, model)
    from rnnlm.evaluation.explanation import explain
    from rnnlm.models.model_factory import load_model
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
