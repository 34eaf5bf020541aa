"""models, promote, rollback: manage registered models; generate, serve, export: use one."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from flows.commands.parser import (
    MODEL,
    Commands,
    PrintResult,
    add_command,
    add_config_options,
    config_from,
    show_warnings,
)
from rnnlm.config import GenerationConfig
from rnnlm.home import Home
from rnnlm.serving.serving_config import ServingConfig

if TYPE_CHECKING:
    from rnnlm.registry.champion_history import Change

MODEL_NAME = "a registered model, such as rnnlm-python-docs"
MODEL_VERSION = "its number, champion or challenger"
TOKEN_VARIABLE = "RNNLM_SERVE_TOKEN"


def add_model_commands(commands: Commands) -> None:
    models = add_command(commands, "models", models_command)
    models.add_argument("--best", action="store_true", help="lowest validation perplexity per model and dataset")
    models.add_argument("--dataset", metavar="DATASET", help="only those trained on it: id, start of id, or folder")
    show = add_command(models.add_subparsers(metavar="[show]"), "show", show_command)
    show.add_argument("name", metavar="NAME", help=MODEL_NAME)
    show.add_argument(
        "version", metavar="VERSION", nargs="?", default="champion", help=f"{MODEL_VERSION} (default: champion)"
    )

    promote = add_command(commands, "promote", promote_command)
    promote.add_argument("name", metavar="NAME", help=MODEL_NAME)
    promote.add_argument("version", metavar="VERSION", help=MODEL_VERSION)
    promote.add_argument("--reason", default="", help="why; stored with the version")

    rollback = add_command(commands, "rollback", rollback_command)
    rollback.add_argument("name", metavar="NAME", help=MODEL_NAME)
    rollback.add_argument("--reason", default="", help="why; stored with the version")

    generate = add_command(commands, "generate", generate_command)
    generate.add_argument("model", metavar="MODEL", help=MODEL)
    generate.add_argument("--prompt", default="", help="the text to continue (default: none)")
    add_config_options(
        generate, "generation", GenerationConfig, "maximum_tokens", "temperature", "top_k", "top_p", "seed"
    )

    serve = add_command(commands, "serve", serve_command)
    serve.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a registered name or models:/NAME@ALIAS, reloaded when the alias moves; models:/NAME/VERSION, a run "
        "folder or a run id (default: the champion of the only registered name)",
    )
    add_config_options(
        serve,
        "serving",
        ServingConfig,
        *("host", "port", "token", "maximum_running", "maximum_waiting", "maximum_seconds"),
        *("poll_seconds", "drain_seconds"),
    )

    export = add_command(commands, "export", export_command)
    export.add_argument("model", metavar="MODEL", help=MODEL)
    export.add_argument("--to", choices=("onnx",), default="onnx", help="format (default: onnx)")
    export.add_argument("--output", type=Path, default=Path("onnx/model.onnx"), help="default: onnx/model.onnx")


def models_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """List the registered models, newest first, or show one of them.

    rnnlm models --best
    rnnlm models show rnnlm-python-docs challenger
    """
    from rnnlm.registry.model_lookup import best_versions, list_models, of_dataset
    from rnnlm.reports.registry_page import model_row
    from rnnlm.text_layout import columns

    versions = list_models(home)
    nothing = "no models of that dataset: rnnlm models" if versions and options.dataset else "no models yet: rnnlm run"
    if options.dataset:
        versions = of_dataset(versions, options.dataset)
    if options.best:
        versions = best_versions(versions)
    text = "\n".join(columns([model_row(version) for version in versions])) if versions else nothing
    print_result(text, [version.model_dump(mode="json") for version in versions])


def show_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Show one version and its lineage, back to the corpus.

    rnnlm models show rnnlm-python-docs challenger
    """
    from rnnlm.registry.lineage import show_version
    from rnnlm.reports.registry_page import lineage_report

    details = show_version(home, options.name, options.version)
    print_result(lineage_report(details), details.model_dump(mode="json"))


def promote_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Make a version champion by hand, overriding the evidence.

    rnnlm promote rnnlm-python-docs 3 --reason 'better on our tickets'
    """
    show_warnings()
    from rnnlm.registry.promotion_commands import promote_by_hand

    print_change(promote_by_hand(home, options.name, options.version, options.reason), options.name, print_result)


def rollback_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Make the previous champion champion again.

    rnnlm rollback rnnlm-python-docs
    """
    show_warnings()
    from rnnlm.registry.promotion_commands import roll_back

    print_change(roll_back(home, options.name, options.reason), options.name, print_result)


def print_change(change: "Change", name: str, print_result: PrintResult) -> None:
    from rnnlm.reports.registry_page import change_line

    print_result(f"{name} version {change.version} is champion: {change_line(change)}", change.model_dump(mode="json"))


def generate_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Generate text with a model.

    rnnlm generate models:/rnnlm-python-docs@champion --prompt 'The following'
    """
    show_warnings()
    config = config_from(options, "generation", GenerationConfig)
    from rnnlm.generation.generate import continue_prompt
    from rnnlm.models.model_factory import load_model
    from rnnlm.registry.model_lookup import model_folder
    from rnnlm.tokenizers.text_tokenizer import load_tokenizer
    from rnnlm.tokenizers.token_colors import visible

    folder = model_folder(home, options.model)
    sample = continue_prompt(load_model(folder), load_tokenizer(folder), options.prompt, config)
    text = "\n".join(map(visible, sample.text.split("\n")))  # --json gives the exact characters
    print_result(text, {"prompt": sample.prompt, "text": sample.text, "tokens": sample.tokens})


def serve_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Serve a model over HTTP, with a page to try it.

    rnnlm serve
    rnnlm serve rnnlm-python-docs --port 8080
    """
    show_warnings()
    token = os.environ.get(TOKEN_VARIABLE)
    config = config_from(options, "serving", ServingConfig, defaults={"token": token} if token else {})
    from rnnlm.serving.server import serve_model

    def announce(address: str, model: str) -> None:
        print_result(f"serving    {model}\nat         {address}", {"model": model, "address": address})

    serve_model(home, options.model, config, announce)


def export_command(options: argparse.Namespace, home: Home, print_result: PrintResult) -> None:
    """Export a model to a file for another runtime (extra: onnx).

    rnnlm export models:/rnnlm-python-docs@champion --to onnx
    """
    show_warnings()
    from rnnlm.models.onnx_graph import export_onnx
    from rnnlm.registry.model_lookup import model_folder

    record = export_onnx(model_folder(home, options.model), options.output)
    text = (
        f"{record.file}: {record.file_bytes:,} bytes, next to "
        f"{record.tokenizer.name} and {record.special_tokens.name}\n"
        f"checked in onnxruntime: logits within {record.largest_difference:.1e} of torch's"
    )
    print_result(text, record.model_dump(mode="json"))
