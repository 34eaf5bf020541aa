"""What people read about a run: markdown for the Prefect UI, rows of tables, the summary on the terminal."""

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnlm.config import ModelConfig, TrainingConfig
from rnnlm.records import (
    CorpusRecord,
    DatasetRecord,
    EvaluationRecord,
    GradientFlowRecord,
    PipelineRecord,
    PositionsRecord,
    RunRecord,
    SamplesRecord,
    SplitScore,
    StageRecord,
    TokenizerRecord,
)

if TYPE_CHECKING:  # at run time it would bring torch along
    from rnnlm.evaluation.on_top.comparing import Comparison

Rows = list[tuple[str, object]]
LETTERS = re.compile(r"[^\W\d]")


def facts(title: str, record: StageRecord, rows: Rows) -> str:
    """A markdown heading with a two-column table below it."""
    state = "skipped: its verified output exists" if record.skipped else f"done in {record.seconds:.1f} s"
    lines = [f"## {title}", "", f"*{state}*", "", "| | |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value} |" for name, value in rows])


def corpus_report(corpus: CorpusRecord) -> str:
    rows: Rows = [
        ("name", corpus.name),
        ("source", f"`{corpus.source}`"),
        ("sha256", f"`{corpus.digest}`"),
        ("bytes", f"{corpus.corpus_bytes:,}"),
        ("files", ", ".join(sorted(corpus.files.values()))),
        ("licence", corpus.licence or "not stated"),
    ]
    return facts("Corpus", corpus, rows)


def tokenizer_report(tokenizer: TokenizerRecord) -> str:
    rows: Rows = [
        ("kind", tokenizer.kind),
        ("vocabulary", f"{tokenizer.vocabulary_size:,} ids"),
        ("folder", f"`{tokenizer.folder}`"),
    ]
    return facts("Tokenizer", tokenizer, rows)


def sequences_report(dataset: DatasetRecord, checks: list[str]) -> str:
    rows: Rows = [("dataset", f"`{dataset.dataset_id}`"), ("mode", dataset.mode)]
    rows += [(f"predicted tokens, {split}", f"{count:,}") for split, count in dataset.predicted_tokens.items()]
    rows += [("file", f"`{dataset.database}`"), ("checks passed", ", ".join(checks))]
    return facts("Sequences", dataset, rows)


def training_report(run: RunRecord, model: ModelConfig, training: TrainingConfig) -> str:
    rows: Rows = [
        ("run", f"`{run.run_id}`"),
        ("model", f"Elman, {model.layers} × {model.hidden_size}, {model.nonlinearity}"),
        ("epochs", training.epochs),
        ("trained tokens", f"{run.trained_tokens:,}"),
        ("best validation perplexity", f"{run.best_validation_perplexity:.2f}"),
        ("folder", f"`{run.folder}`"),
    ]
    return facts("Training", run, rows)


def score_rows(evaluation: EvaluationRecord) -> list[dict[str, Any]]:
    """One row a split, the model beside the uniform and the unigram baseline."""
    return [score_row(score) for score in evaluation.scores.values()]


def score_row(score: SplitScore) -> dict[str, Any]:
    return {
        "split": score.split,
        "tokens": f"{score.tokens:,}",
        "perplexity": f"{score.perplexity:.2f}",
        "unigram": f"{score.unigram_perplexity:.2f}",
        "uniform": f"{score.uniform_perplexity:,.0f}",
        "bits/byte": f"{score.bits_per_byte:.3f}",
        "unknown": f"{score.unknown_rate:.2%}",
    }


def comparison_rows(comparison: "Comparison") -> list[dict[str, Any]]:
    """One row a variant, the plain model first."""
    static = comparison.variants[0].perplexity
    return [
        {
            "model": variant.name,
            "split": comparison.split,
            "tokens": f"{comparison.tokens:,}",
            "perplexity": f"{variant.perplexity:.2f}",
            "change": f"{variant.perplexity / static - 1:+.1%}" if index else "",
            "settings": " ".join(f"{name}={value:.4g}" for name, value in variant.settings.items()),
        }
        for index, variant in enumerate(comparison.variants)
    ]


def samples_report(samples: SamplesRecord) -> str:
    blocks = [
        f"**{markdown_text(sample.prompt) or '(start of a sequence)'}** {markdown_text(sample.text)}"
        for sample in samples.samples
    ]
    return "## Samples\n\n" + "\n\n".join(blocks)


def markdown_text(text: str) -> str:
    """Text that markdown shows as it is: `<unk>` is no tag, `*` no emphasis."""
    for mark in "\\`*_<>|#[]":
        text = text.replace(mark, "\\" + mark)
    return text.strip()


def picture_report(title: str, picture: Path) -> str:
    """Markdown with the PNG inside, so that the UI shows it without fetching anything."""
    data = base64.b64encode(picture.read_bytes()).decode("ascii")
    return f"## {title}\n\n![{title}](data:image/png;base64,{data})"


def gradient_report(record: GradientFlowRecord) -> str:
    """The picture, and below it how much of the gradient is left at some distances."""
    distances = [distance for distance in (1, 5, 10, 20, 50) if distance < len(record.norms[0])]
    lines = [
        f"| layer | {' | '.join(f'{distance} back' for distance in distances)} |",
        "|---" * (1 + len(distances)) + "|",
    ]
    for layer, norms in enumerate(record.norms):
        left = (f"{norms[distance] / norms[0]:.2g}" if norms[0] else "-" for distance in distances)
        lines.append(f"| {layer + 1} | {' | '.join(left)} |")
    said = "The gradient's norm relative to that at the loss's own step."
    return "\n\n".join([picture_report("Gradient flow", record.picture), said, "\n".join(lines)])


def positions_report(record: PositionsRecord) -> str:
    """The picture, and below it a table of some positions, the training length among them."""
    last = len(record.right)
    chosen = {
        1,
        record.given_tokens + 1,
        record.longest_trained,
        2 * record.longest_trained,
        3 * record.longest_trained,
    }
    lines = ["| position | rows | next token right | all right so far |", "|---|---|---|---|"]
    for position in sorted(position for position in chosen | {last} if 1 <= position <= last):
        exact = record.exact[position - 1]
        cells = (
            f"{position}{' (longest in training)' if position == record.longest_trained else ''}",
            f"{record.rows[position - 1]:,}",
            f"{record.right[position - 1]:.1%}",
            "given" if exact is None else f"{exact:.1%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n\n".join([picture_report("Right guesses by position", record.picture), "\n".join(lines)])


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a table for the terminal: a heading, then the rows; the first column and text to the left."""
    heads = list(rows[0])
    left = {head for head in heads if head == heads[0] or any(LETTERS.match(str(row[head])) for row in rows)}
    widths = [max(len(head), *(len(str(row[head])) for row in rows)) for head in heads]
    lines = [heads, *([str(row[head]) for head in heads] for row in rows)]
    return [
        "  ".join(
            cell.ljust(width) if head in left else cell.rjust(width)
            for head, cell, width in zip(heads, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def pipeline_summary(record: PipelineRecord) -> str:
    """What `rnnlm run` prints at its end."""
    stages = record.stages
    skipped = [name for name, stage in stages.items() if stage.skipped]
    done = [f"{name} {stage.seconds:.1f} s" for name, stage in stages.items() if not stage.skipped]
    lines = [
        "",
        f"corpus     {record.corpus.name}, sha256 {record.corpus.digest[:16]}, {record.corpus.corpus_bytes:,} bytes",
        f"dataset    {record.dataset.dataset_id}, vocabulary {record.dataset.vocabulary_size:,}, "
        f"{record.dataset.predicted_tokens['train']:,} tokens to train on",
        f"run        {record.run.folder}",
    ]
    lines += [f"done       {', '.join(done)}"] if done else []
    lines += (
        [f"skipped    {', '.join(skipped)} (verified output exists; --force STAGE runs one again)"] if skipped else []
    )
    lines += ["", *columns(score_rows(record.evaluation)), "", "samples"]
    lines += [f"  {f'[{sample.prompt}] ' if sample.prompt else ''}{sample.text}" for sample in record.samples.samples]
    registered = record.registered
    lines += [
        "",
        f"registered {registered.name} version {registered.version} as {registered.alias}: {registered.reason}",
        f"load it    mlflow.pyfunc.load_model({registered.uri!r})",
    ]
    return "\n".join(lines)


def pipeline_json(record: PipelineRecord) -> dict[str, Any]:
    """The keys of `rnnlm run --json` that other programs may rely on."""
    test = record.evaluation.scores["test"]
    return {
        "run_id": record.run.run_id,
        "run_folder": str(record.run.folder),
        "mlflow_run_id": record.run.mlflow_run_id,
        "corpus": record.corpus.name,
        "corpus_digest": record.corpus.digest,
        "dataset_id": record.dataset.dataset_id,
        "model_name": record.registered.name,
        "model_version": record.registered.version,
        "alias": record.registered.alias,
        "reason": record.registered.reason,
        "skipped": [name for name, stage in record.stages.items() if stage.skipped],
        "train_tokens": record.dataset.predicted_tokens["train"],
        "validation_perplexity": record.evaluation.scores["valid"].perplexity,
        "test_perplexity": test.perplexity,
        "bits_per_byte": test.bits_per_byte,
        "unknown_rate": test.unknown_rate,
        "uniform_perplexity": test.uniform_perplexity,
        "unigram_perplexity": test.unigram_perplexity,
        "samples": [sample.model_dump() for sample in record.samples.samples],
        "seconds": {name: round(stage.seconds, 3) for name, stage in record.stages.items()},
    }
