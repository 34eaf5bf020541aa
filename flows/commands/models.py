"""Manage registered models, and generate text with one: models, promote, rollback and generate."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.command import Session
from flows.commands.option_groups import fields
from flows.commands.options import Model
from rnnlm.config import GenerationConfig
from rnnlm.display.text_layout import columns
from rnnlm.registry.model_lookup import (
    best_versions,
    list_models,
    model_folder,
    of_dataset,
    registered_name_and_version,
)
from rnnlm.reports.registry_page import change_line, lineage_report, model_row
from rnnlm.storage.redaction import redacted
from tasks.operations.registry_turn import registry_turn

if TYPE_CHECKING:
    from rnnlm.registry.champion_history import Change
    from rnnlm.storage.records import Sample

HEADING = "Models"
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason for the change, which is stored with the version.")]


def models_command(
    session: Session,
    best: Annotated[
        bool,
        typer.Option(
            "--best", help="Show only the version with the lowest validation perplexity per model and dataset."
        ),
    ] = False,
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Show only models trained on this dataset, which is given by its id, the start of the id, or its "
            "folder.",
        ),
    ] = None,
) -> None:
    """List the registered models, newest first, or show one of them.

    rnnlm models --best
    rnnlm models show rnnlm-python-docs@challenger
    """
    versions = list_models(session.home)
    nothing = (
        "no models of that dataset; rnnlm models lists all"
        if versions and dataset
        else "no models yet; rnnlm run trains one"
    )
    if dataset:
        versions = of_dataset(versions, dataset)
    if best:
        versions = best_versions(versions)
    text = "\n".join(columns([model_row(version) for version in versions])) if versions else nothing
    from rnnlm.reports.json_values import version_value

    session.print_result(text, [version_value(version) for version in versions])


def models_show_command(session: Session, model: Model = None) -> None:
    """Show one version and its lineage, back to the corpus.

    rnnlm models show rnnlm-python-docs@challenger
    """
    from rnnlm.registry.lineage import show_version
    from rnnlm.reports.json_values import details_value

    details = show_version(session.home, *registered_name_and_version(session.home, model))
    session.print_result(lineage_report(details), details_value(details))


def promote_command(
    session: Session,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Version to promote: NAME/3 or NAME@challenger. NAME alone means the version that waits for approval, "
            "or with --to the champion.",
        ),
    ],
    reason: Reason = "",
    to: Annotated[
        str | None,
        typer.Option(
            metavar="REGISTRY",
            help="Copy the version to another registry, and make it champion there. The registry is the address of an "
            "MLflow server, or the folder of another home.",
        ),
    ] = None,
) -> None:
    """Make a version champion by hand, regardless of its scores.

    With registry.approval=true, this command is the approval.

    rnnlm promote rnnlm-python-docs/3 --reason 'better on our tickets'
    rnnlm promote rnnlm-python-docs@champion --to https://mlflow.example.org
    """
    from rnnlm.registry.promotion_commands import promote_by_hand, waiting_version

    name, version = registered_name_and_version(session.home, model)
    if to is not None:
        from rnnlm.registry.version_copy import promote_elsewhere

        with registry_turn(session.home):
            change = promote_elsewhere(session.home, name, version, to, reason)
        print_change(session, change, name, f" in {redacted(to)}")
        return
    if model.removeprefix("models:/") == name:
        version = waiting_version(session.home, name)
    with registry_turn(session.home):
        change = promote_by_hand(session.home, name, version, reason)
    print_change(session, change, name)


def rollback_command(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a registered model, such as rnnlm-python-docs.")],
    reason: Reason = "",
) -> None:
    """Make the previous champion champion again.

    rnnlm rollback rnnlm-python-docs
    """
    from rnnlm.registry.promotion_commands import roll_back

    with registry_turn(session.home):
        change = roll_back(session.home, name, reason)
    print_change(session, change, name)


def print_change(session: Session, change: "Change", name: str, where: str = "") -> None:
    from rnnlm.reports.json_values import change_value

    text = f"{name} version {change.version} is champion{where}: {change_line(change)}"
    session.print_result(text, change_value(name, change))


def generate_command(
    session: Session,
    config: Annotated[
        GenerationConfig,
        fields("minimum_tokens", "maximum_tokens", "temperature", "top_k", "top_p", "seed", "unknown"),
    ],
    model: Model = None,
    prompt: Annotated[
        str, typer.Option(metavar="TEXT", help="Text that the model continues.", show_default=False)
    ] = "",
    number: Annotated[
        int, typer.Option("-n", "--number", metavar="N", help="Number of samples. Each has the next seed.", min=1)
    ] = 1,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Read one prompt after the other from standard input.")
    ] = False,
) -> None:
    """Generate text with a model.

    rnnlm generate --prompt 'The following' -n 5
    rnnlm generate rnnlm-python-docs@challenger --temperature 0.7
    rnnlm generate --interactive
    """
    folder = model_folder(session.home, model)
    from rnnlm.generation.generate import continue_prompts
    from rnnlm.models.model_factory import load_model
    from rnnlm.tokenizers.text_tokenizer import load_tokenizer

    loaded, tokenizer = load_model(folder), load_tokenizer(folder)
    if not interactive:
        print_samples(session, continue_prompts(loaded, tokenizer, [prompt] * number, config))
        return
    for line in prompts_from_input():
        print_samples(session, continue_prompts(loaded, tokenizer, [line] * number, config))
        config = config.model_copy(update={"seed": config.seed + number})


def print_samples(session: Session, samples: "tuple[Sample, ...]") -> None:
    """Print each prompt and its continuation as one text. With --json, control characters are kept."""
    texts = [sample.whole.strip() for sample in samples]
    separator = "\n\n" if any("\n" in text for text in texts) else "\n"
    session.print_result(separator.join(texts), samples[0] if len(samples) == 1 else samples)


def prompts_from_input() -> Iterator[str]:
    """Yield the lines of standard input. On a terminal, show a prompt and allow editing of the line."""
    if not sys.stdin.isatty():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    import readline  # noqa: F401  input() edits lines and remembers them

    print("Type the beginning of a text and press Enter; Ctrl-D ends.", file=sys.stderr)
    with contextlib.suppress(EOFError):
        while True:
            print("> ", end="", file=sys.stderr, flush=True)
            yield input()
