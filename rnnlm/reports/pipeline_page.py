"""Reports on a pipeline run: pages of its stages for the Prefect UI, and the summary for the terminal."""

import textwrap

from rnnlm.config import ModelConfig, PipelineConfig, TrainingConfig
from rnnlm.corpora.text_changes import TextChanges, read_parts, text_changes
from rnnlm.display.model_shape import model_shape
from rnnlm.display.text_layout import (
    LINE_WIDTH,
    Code,
    TableRows,
    columns,
    fact_lines,
    markdown_text,
    shorten,
    text_tables,
    visible,
)
from rnnlm.evaluation.score_tables import counts_sentence, score_rows
from rnnlm.evaluation.seed_scores import seed_rows
from rnnlm.models.mixture import used_counts
from rnnlm.registry.decision_text import unchanged_since
from rnnlm.reports.page import Page, left_out_tables
from rnnlm.reports.registry_page import registered_lines
from rnnlm.storage.records import CorpusRecord, RunRecord, Sample
from rnnlm.storage.result_records import PipelineRecord, PreparedRecord, SamplesRecord, SeedScores, TrainedRecord
from rnnlm.storage.stage_folders import RunFolder

FILES_SHOWN = 20
# A hint at settings that give a better model than the default; docs/explanation/minutes.md has the measurements.
HINT = (
    "--minutes 10 trains longer; --set model.kind=lstm is 5% better than the default in the same time (on python-docs)"
)


def corpus_report(corpus: CorpusRecord) -> str:
    """Return the report on a corpus in Markdown."""
    parts, changes = read_parts(corpus.folder), text_changes(corpus)
    facts = {
        "name": corpus.name,
        "source": Code(corpus.source),
        "sha256": Code(corpus.digest),
        "bytes": f"{corpus.corpus_bytes:,}",
        "files": f"{len(parts):,}" if parts else "",
        "stored as": ", ".join(sorted(corpus.files.values())),
        "licence": corpus.licence or "not stated",
        "freshness": corpus.freshness,
    }
    tables: dict[str, TableRows] = change_tables(corpus, changes) if changes else {}
    tables |= left_out_tables(corpus.left_out)
    return Page("Corpus", facts, tables, stage=corpus).markdown()


def change_tables(corpus: CorpusRecord, changes: TextChanges) -> dict[str, TableRows]:
    """Return tables of the changes since the source's previous version: new text, changed files and some new lines."""
    counted: TableRows = [
        {
            "": kind,
            "files": f"{len(some):,}",
            "bytes": f"{sum(one.bytes_now - one.bytes_before for one in some):+,}",
            "new lines": line_count([one.new_lines for one in some]),
        }
        for kind in ("new", "changed", "gone")
        if (some := [one for one in changes.changes if one.change == kind])
    ]
    total = {"": "all", "files": f"{changes.part_count - changes.parts_before:+,}"}
    total |= {"bytes": f"{corpus.corpus_bytes - changes.bytes_before:+,}"}
    total |= {"new lines": line_count([one.new_lines for one in changes.changes])}
    files: TableRows = [
        {
            "file": one.name,
            "is": one.change,
            "bytes before": f"{one.bytes_before:,}",
            "bytes now": f"{one.bytes_now:,}",
            "new lines": line_count([one.new_lines]),
        }
        for one in changes.changes[:FILES_SHOWN]
    ]
    more = len(changes.changes) - len(files)
    return {
        f"New since the last text, sha256 {corpus.before[:16]}": [*counted, total],
        f"Files that differ{f' (the first {FILES_SHOWN}, {more:,} more)' if more else ''}": files,
        "First new lines": [{"file": name, "line": shorten(line)} for name, line in changes.first_lines],
    }


def line_count(counts: list[int | None]) -> str:
    known = [count for count in counts if count is not None]
    return f"{sum(known):,}" if len(known) == len(counts) else f"{sum(known):,} or more" if known else "unknown"


def data_report(prepared: PreparedRecord, gates: str, description: str) -> str:
    """Return the report on corpus, tokenizer and sequences, the gates, and the dataset's description, in Markdown."""
    tokenizer, dataset = prepared.tokenizer, prepared.dataset
    tokenizer_facts = {
        "kind": tokenizer.kind,
        "vocabulary": f"{tokenizer.vocabulary_size:,} ids",
        "folder": tokenizer.folder,
    }
    dataset_facts = {
        "dataset": Code(dataset.dataset_id),
        "mode": dataset.mode,
        **{f"predicted tokens, {split}": f"{count:,}" for split, count in dataset.predicted_tokens.items()},
        "file": dataset.database,
    }
    pages = [
        corpus_report(prepared.corpus),
        Page("Tokenizer", tokenizer_facts, stage=tokenizer).markdown(),
        Page("Sequences", dataset_facts, stage=dataset).markdown(),
    ]
    return "\n\n".join([*pages, gates, description])


def as_used(model: ModelConfig, run: RunRecord) -> ModelConfig:
    """Return the model's configuration without its n-gram model if all mixture weights of the n-gram model are 0."""
    return model.model_copy(update={"counts": used_counts(run.model_folder)})


def training_report(run: RunRecord, model: ModelConfig, training: TrainingConfig) -> str:
    """Return the report on a training run in Markdown."""
    if run.started_from is not None:
        training = training.of_warm_start()
    facts = {
        "run": Code(run.run_id),
        "started from": str(run.started_from or "random weights"),
        **{name: fact for _, section in training.sections() for name, fact in section.facts().items()},
        "model": model_shape(as_used(model, run), len(run.members)),
        "epochs": training.epoch_count,
        "trained tokens": f"{run.trained_tokens:,}",
        **(
            {"best sampled validation perplexity": f"{run.best_validation_perplexity:.2f}"} if model.has_network else {}
        ),
        "temperature": f"{run.temperature:.3f}",
        "folder": run.folder,
    }
    return Page("Training", facts, stage=run).markdown()


def samples_report(samples: SamplesRecord) -> str:
    blocks = [
        f"**{markdown_text(sample.prompt) or '(start of a sequence)'}** {markdown_text(sample.text)}"
        for sample in samples.samples
    ]
    return "## Samples\n\n" + "\n\n".join(blocks)


def pipeline_summary(record: PipelineRecord) -> str:
    """Return the summary that `rnnlm run` prints."""
    config = PipelineConfig.model_validate(RunFolder(record.run.folder).configuration)
    corpus, dataset, run, stages = record.corpus, record.dataset, record.run, record.stages
    train_tokens = dataset.predicted_tokens["train"]
    facts = {
        "corpus": f"{corpus.name}, sha256 {corpus.digest[:16]}, {corpus.corpus_bytes:,} bytes"
        + (f", {corpus.freshness}" if corpus.freshness else ""),
        "dataset": f"{dataset.dataset_id}, vocabulary {dataset.vocabulary_size:,}, {train_tokens:,} tokens to train on",
        "run": run.folder,
        "trained": f"{model_shape(as_used(config.model, run), len(run.members))}; {run.trained_tokens:,} tokens "
        f"({run.trained_tokens / train_tokens:.1f} epochs)",
        "started": f"from {run.started_from}" if run.started_from else "",
        **{name: fact for _, section in config.sections() for name, fact in section.facts().items()},
        "done": ", ".join(f"{name} {stage.seconds:.1f} s" for name, stage in stages.items() if not stage.skipped),
    }
    skipped = ", ".join(name for name, stage in stages.items() if stage.skipped)
    if record.is_unchanged:
        facts["done"] = f"nothing: {unchanged_since(record)} (--force STAGE reruns a stage)"
    elif skipped:
        facts["skipped"] = f"{skipped} (verified output exists; --force STAGE reruns one)"
    advice = {
        "hint": HINT if config.model.kind == "elman" and not run.skipped else "",
        "warning": record.score_warnings,
    }
    lines = ["", *fact_lines(facts), "", *score_lines(record), *fact_lines(advice)]
    seeds = seed_lines(record.seeds) if record.seeds else []
    samples = samples_text(record.samples)
    return "\n".join([*lines, *seeds, "", *samples, "", *registered_lines(record.registered)])


def score_lines(record: TrainedRecord) -> list[str]:
    """Return lines for the terminal with the scores and the comparison with an n-gram model."""
    counting = {"counting": counts_sentence(record.evaluation.scores["test"])}
    return [*columns(score_rows(record.evaluation)), *fact_lines(counting)]


def seed_lines(seeds: SeedScores) -> list[str]:
    """Return lines for the terminal with the scores of runs with several seeds, after an empty line."""
    return text_tables({f"{len(seeds.run_ids)} seeds": seed_rows(seeds)})


def samples_text(samples: SamplesRecord) -> list[str]:
    """Return lines for the terminal with the sampled texts."""
    prompted = any(sample.prompt for sample in samples.samples)
    title = "samples, with | between the prompt and what the model wrote" if prompted else "samples"
    return [title, *(line for sample in samples.samples for line in sample_lines(sample))]


def sample_lines(sample: Sample) -> list[str]:
    """Return indented lines with prompt and continuation, separated by a bar."""
    text = f"{sample.prompt} |{sample.whole[len(sample.prompt) :]}" if sample.prompt else sample.text
    lines = (textwrap.wrap(visible(line), LINE_WIDTH - 2, subsequent_indent="  ") for line in text.split("\n"))
    return [f"  {line}" for wrapped in lines for line in wrapped or [""]]


def prepared_summary(record: PreparedRecord) -> str:
    """Return the summary that `rnnlm prepare` prints.

    It begins with the id of the dataset, which other commands accept.
    """
    dataset = record.dataset
    facts = {
        "dataset": dataset.dataset_id,
        "tokens": ", ".join(f"{split} {count:,}" for split, count in dataset.predicted_tokens.items()),
        "vocabulary": f"{dataset.vocabulary_size:,} ids",
        "file": dataset.database,
        "warning": record.score_warnings,
    }
    return "\n".join(fact_lines(facts))


def mixed_summary(record: TrainedRecord) -> str:
    """Return the summary that `rnnlm mix` prints: the networks with their weights, then the scores of the ensemble."""
    members = [
        {
            "run": member.run_id,
            "network": member.shape,
            "share": f"{member.share:.2f}",
            "valid": f"{member.validation_perplexity:.2f}",
            "test": f"{member.test_perplexity:.2f}",
        }
        for member in record.run.members
    ]
    note = "below, `network` is the mean of these networks' probabilities, without counts"
    return "\n".join([*columns(members), *fact_lines({"note": note}), "", trained_summary(record)])


def trained_summary(record: TrainedRecord) -> str:
    """Return the summary that `rnnlm train` prints."""
    run = fact_lines({"run": record.run.folder})
    return "\n".join([*run, "", *score_lines(record), "", *registered_lines(record.registered)])
