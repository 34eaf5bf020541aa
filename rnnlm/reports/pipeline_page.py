"""Reports on a pipeline run: one page per stage for the Prefect UI, and the summary for the terminal."""

import textwrap
from typing import Any

from rnnlm.config import ModelConfig, PipelineConfig, TrainingConfig
from rnnlm.display.text_layout import (
    LINE_WIDTH,
    FactRows,
    TableRows,
    columns,
    facts,
    labelled,
    markdown_table,
    markdown_text,
    visible,
)
from rnnlm.evaluation.score_tables import counts_sentence, score_rows
from rnnlm.home import read_json
from rnnlm.models.kinds import kind_of
from rnnlm.registry.night_events import unchanged_since
from rnnlm.reports.registry_page import registered_lines
from rnnlm.storage.records import (
    CorpusRecord,
    DatasetRecord,
    EvaluationRecord,
    PipelineRecord,
    PreparedRecord,
    RunRecord,
    Sample,
    SamplesRecord,
    SplitScore,
    TokenizerRecord,
    TrainedRecord,
)

# What would give a better model than an Elman network; measured in docs/explanation/minutes.md
HINT = "--minutes 10 trains longer; --set model.kind=lstm is better by 5% in the same time (on python-docs)"


def corpus_report(corpus: CorpusRecord) -> str:
    rows: FactRows = [
        ("name", corpus.name),
        ("source", f"`{corpus.source}`"),
        ("sha256", f"`{corpus.digest}`"),
        ("bytes", f"{corpus.corpus_bytes:,}"),
        ("files", ", ".join(sorted(corpus.files.values()))),
        ("licence", corpus.licence or "not stated"),
    ]
    rows += [("freshness", corpus.freshness)] if corpus.freshness else []
    tables: list[TableRows] = [
        [{what: one.name, "reason": one.reason} for one in corpus.left_out if one.read == read]
        for read, what in ((True, "not read as it stands"), (False, "left out"))
    ]
    return "\n\n".join([facts("Corpus", corpus, rows), *(markdown_table(table) for table in tables if table)])


def tokenizer_report(tokenizer: TokenizerRecord) -> str:
    rows: FactRows = [
        ("kind", tokenizer.kind),
        ("vocabulary", f"{tokenizer.vocabulary_size:,} ids"),
        ("folder", f"`{tokenizer.folder}`"),
    ]
    return facts("Tokenizer", tokenizer, rows)


def sequences_report(dataset: DatasetRecord) -> str:
    rows: FactRows = [("dataset", f"`{dataset.dataset_id}`"), ("mode", dataset.mode)]
    rows += [(f"predicted tokens, {split}", f"{count:,}") for split, count in dataset.predicted_tokens.items()]
    rows += [("file", f"`{dataset.database}`")]
    return facts("Sequences", dataset, rows)


def data_report(prepared: PreparedRecord, gates: str, description: str) -> str:
    """Corpus, tokenizer and sequences, the page of the checks, and the dataset's description."""
    parts = [corpus_report(prepared.corpus), tokenizer_report(prepared.tokenizer)]
    return "\n\n".join([*parts, sequences_report(prepared.dataset), gates, description])


def training_report(run: RunRecord, model: ModelConfig, training: TrainingConfig) -> str:
    if run.started_from is not None:
        training = training.of_warm_start()
    rows: FactRows = [
        ("run", f"`{run.run_id}`"),
        ("started from", str(run.started_from or "random weights")),
        ("model", model_shape(model)),
        ("epochs", training.epoch_count),
        ("trained tokens", f"{run.trained_tokens:,}"),
        ("best sampled validation perplexity", f"{run.best_validation_perplexity:.2f}"),
        ("temperature", f"{run.temperature:.3f}"),
        ("folder", f"`{run.folder}`"),
    ]
    return facts("Training", run, rows)


def model_shape(model: ModelConfig) -> str:
    kind = kind_of(model.kind)
    if not kind.is_trained:
        return f"{kind.name}, up to {model.counts} tokens"
    counts = f", mixed with {model.counts}-gram counts" if model.counts else ""
    return f"{kind.name}, {model.layers} × {model.units}{stack_kind(model)}{counts}"


def stack_kind(model: ModelConfig) -> str:
    """The variant of an Elman cell; "" for other kinds."""
    if model.kind != "elman":
        return ""
    diagonal, residual = model.recurrence == "diagonal", model.is_residual
    return f", {model.nonlinearity}" + (", diagonal" if diagonal else "") + (", residual" if residual else "")


def samples_report(samples: SamplesRecord) -> str:
    blocks = [
        f"**{markdown_text(sample.prompt) or '(start of a sequence)'}** {markdown_text(sample.text)}"
        for sample in samples.samples
    ]
    return "## Samples\n\n" + "\n\n".join(blocks)


def pipeline_summary(record: PipelineRecord) -> str:
    """The summary that `rnnlm run` prints."""
    config = PipelineConfig.model_validate(read_json(record.run.folder / "config.json"))
    stages = record.stages
    skipped = [name for name, stage in stages.items() if stage.skipped]
    done = [f"{name} {stage.seconds:.1f} s" for name, stage in stages.items() if not stage.skipped]
    lines = [
        "",
        f"corpus     {record.corpus.name}, sha256 {record.corpus.digest[:16]}, {record.corpus.corpus_bytes:,} bytes"
        + (f", {record.corpus.freshness}" if record.corpus.freshness else ""),
        f"dataset    {record.dataset.dataset_id}, vocabulary {record.dataset.vocabulary_size:,}, "
        f"{record.dataset.predicted_tokens['train']:,} tokens to train on",
        f"run        {record.run.folder}",
        labelled("trained", trained_sentence(config.model, record.run, record.dataset)),
    ]
    lines += [labelled("started", f"from {record.run.started_from}")] if record.run.started_from else []
    lines += [labelled("done", ", ".join(done))] if done else []
    if record.is_unchanged:
        lines.append(labelled("done", f"nothing: {unchanged_since(record)} (--force STAGE reruns a stage)"))
    elif skipped:
        lines.append(labelled("skipped", f"{', '.join(skipped)} (verified output exists; --force STAGE reruns one)"))
    lines += ["", *columns(score_rows(record.evaluation))]
    lines += counts_lines(record.evaluation)
    if config.model.kind == "elman" and not record.run.skipped:
        lines.append(labelled("hint", HINT))
    lines += [labelled("warning", warning) for warning in record.score_warnings]
    lines += ["", *samples_text(record.samples)]
    return "\n".join([*lines, "", *registered_lines(record.registered)])


def trained_sentence(model: ModelConfig, run: RunRecord, dataset: DatasetRecord) -> str:
    """The trained model, and the amount of text that it was trained on."""
    epochs = run.trained_tokens / dataset.predicted_tokens["train"]
    return f"{model_shape(model)}; {run.trained_tokens:,} tokens ({epochs:.1f} epochs)"


def counts_lines(evaluation: EvaluationRecord) -> list[str]:
    """A line of the terminal, if the network was scored beside counts."""
    sentence = counts_sentence(evaluation.scores["test"])
    return [labelled("counting", sentence)] if sentence else []


def samples_text(samples: SamplesRecord) -> list[str]:
    """Lines of the terminal."""
    prompted = any(sample.prompt for sample in samples.samples)
    title = "samples, with | between the prompt and what the model wrote" if prompted else "samples"
    return [title, *(line for sample in samples.samples for line in sample_lines(sample))]


def sample_lines(sample: Sample) -> list[str]:
    """Indented lines: prompt and continuation with a bar between them."""
    text = f"{sample.prompt} |{sample.whole[len(sample.prompt) :]}" if sample.prompt else sample.text
    lines = (textwrap.wrap(visible(line), LINE_WIDTH - 2, subsequent_indent="  ") for line in text.split("\n"))
    return [f"  {line}" for wrapped in lines for line in wrapped or [""]]


def prepared_summary(record: PreparedRecord) -> str:
    """The summary that `rnnlm prepare` prints: the dataset's id first, which other commands take."""
    dataset = record.dataset
    return "\n".join(
        [
            f"dataset    {dataset.dataset_id}",
            f"tokens     {', '.join(f'{split} {count:,}' for split, count in dataset.predicted_tokens.items())}",
            f"vocabulary {dataset.vocabulary_size:,} ids",
            labelled("file", str(dataset.database)),
            *(labelled("warning", warning) for warning in record.score_warnings),
        ]
    )


def trained_summary(record: TrainedRecord) -> str:
    """The summary that `rnnlm train` prints."""
    rows = columns(score_rows(record.evaluation))
    rows += counts_lines(record.evaluation)
    return "\n".join([f"run        {record.run.folder}", "", *rows, "", *registered_lines(record.registered)])


def parts_json(test: SplitScore) -> dict[str, float | None]:
    """The parts' scores on the test split; null where there is no such part."""
    network, counts = test.network or test, test.counts
    return {
        "network_test_perplexity": network.perplexity,
        "network_bits_per_byte": network.bits_per_byte,
        "counts_test_perplexity": counts.perplexity if counts else None,
        "counts_bits_per_byte": counts.bits_per_byte if counts else None,
        "counting_seconds": counts.seconds if counts else None,
    }


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
        **parts_json(test),
        "samples": [sample.model_dump() for sample in record.samples.samples],
        "seconds": {name: round(stage.seconds, 3) for name, stage in record.stages.items()},
    }
