"""evaluate, generate: what one does with a trained model."""

import argparse
import logging
import sys

from flows.commands import adaptation_options
from flows.commands.parser import CORPUS, MODEL, Commands, Say, add
from rnnlm.config import CorpusConfig, GenerationConfig
from rnnlm.home import Home
from rnnlm.presets import validate_section


def add_commands(commands: Commands) -> None:
    sub = add(commands, "evaluate", evaluate, "perplexity of a model on a corpus")
    sub.add_argument("model", metavar="MODEL", help=MODEL)
    sub.add_argument("--corpus", required=True, help=CORPUS)
    sub.add_argument(
        "--split",
        choices=("train", "valid", "test"),
        help="default: test, or all of a text the model was not trained on",
    )
    adaptation_options.add_options(sub)

    sub = add(commands, "generate", generate, "text from a model")
    sub.add_argument("model", metavar="MODEL", help=MODEL)
    sub.add_argument("--prompt", default="", help="the text to continue")
    for field, type_ in (
        ("maximum-tokens", int),
        ("temperature", float),
        ("top-k", int),
        ("top-p", float),
        ("seed", int),
    ):
        default = GenerationConfig.model_fields[field.replace("-", "_")].default
        sub.add_argument(f"--{field}", type=type_, default=default, help=f"default: {default}")


def evaluate(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    wanted = adaptation_options.wanted_by(options)
    from rnnlm.evaluation.external_corpus import compare_on_corpus, score_corpus
    from rnnlm.evaluation.score_tables import adaptation_rows, score_row
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.text_layout import columns

    corpus = validate_section("corpus", CorpusConfig, {"source": options.corpus})
    folder = model_folder(home, options.model)
    if wanted is not None:
        comparison = compare_on_corpus(home, folder, corpus, wanted, options.split)
        say("\n".join(columns(adaptation_rows(comparison))), comparison.model_dump(mode="json"))
        return
    score = score_corpus(home, folder, corpus, options.split)
    say("\n".join(columns([score_row(score)])), score.model_dump(mode="json"))


def generate(options: argparse.Namespace, home: Home, say: Say) -> None:
    listen()
    names = ("maximum_tokens", "temperature", "top_k", "top_p", "seed")
    config = validate_section("generation", GenerationConfig, {name: getattr(options, name) for name in names})
    from rnnlm.generation.generate import continue_prompt
    from rnnlm.models.model_factory import load_model
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.tokenizers.text_tokenizer import load_tokenizer
    from rnnlm.tokenizers.token_colors import visible

    folder = model_folder(home, options.model)
    sample = continue_prompt(load_model(folder), load_tokenizer(folder), options.prompt, config)
    text = "\n".join(map(visible, sample.text.split("\n")))  # --json gives the very characters
    say(text, {"prompt": sample.prompt, "text": sample.text, "tokens": sample.tokens})


def listen() -> None:
    """Commands that run outside Prefect show the library's warnings on standard error."""
    logging.basicConfig(level=logging.WARNING, format="rnnlm: %(message)s", stream=sys.stderr)
