"""Write a model in the format of another program with `rnnlm export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.commands.command import Session
from flows.commands.options import Model
from rnnlm.registry.model_lookup import model_folder

HEADING = "Models"


def export_command(
    session: Session,
    model: Model = None,
    file_format: Annotated[
        Literal["onnx", "arpa"],
        typer.Option(
            "--format",
            metavar="onnx|arpa",
            help="Format of the export. onnx exports the network, and arpa exports the n-gram counts.",
        ),
    ] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Path of the exported file. Default: onnx/model.onnx or model.arpa."),
    ] = None,
) -> None:
    """Export a model to a file, its network to ONNX (extra: onnx) or its n-gram counts to ARPA.

    rnnlm export rnnlm-python-docs --output onnx/model.onnx
    rnnlm export rnnlm-python-docs --format arpa
    """
    folder = model_folder(session.home, model)
    if file_format == "arpa":
        from rnnlm.extensions.exports.arpa import export_arpa

        counts = export_arpa(folder, output or Path("model.arpa"))
        text = f"{counts.file}: {counts.file_bytes:,} bytes, {sum(counts.ngrams):,} n-grams of up to "
        text += f"{len(counts.ngrams)} tokens"
        if counts.without_network:
            text += "\nthe counts alone: the network that is mixed with them is not exported"
        session.print_result(text, counts)
        return
    from rnnlm.extensions.exports.onnx_graph import export_onnx

    record = export_onnx(folder, output or Path("onnx/model.onnx"))
    text = (
        f"{record.file}: {record.file_bytes:,} bytes, next to "
        f"{record.tokenizer.name} and {record.special_tokens.name}\n"
        f"checked in onnxruntime: logits within {record.largest_difference:.1e} of torch's"
    )
    if record.without_counts:
        text += "\nthe network alone: the counts that are mixed with it are not exported"
    session.print_result(text, record)
