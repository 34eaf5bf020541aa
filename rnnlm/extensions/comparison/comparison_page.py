"""Reports on a comparison: text for the terminal, Markdown for Prefect, and a self-contained HTML page."""

import itertools
from typing import Any

from rnnlm.display.templates import render
from rnnlm.display.text_layout import TableRows, columns, fact_lines
from rnnlm.evaluation.score_tables import SPLIT_NAMES
from rnnlm.extensions.comparison.comparison_config import NAMES
from rnnlm.extensions.comparison.document_bootstrap import PairDifference
from rnnlm.extensions.comparison.model_comparison import ModelComparison
from rnnlm.extensions.comparison.model_result import ModelResult
from rnnlm.extensions.comparison.registered_models import RegisteredComparison


def comparison_text(comparison: ModelComparison) -> str:
    """Return the text that `rnnlm compare` prints, at most 80 columns wide."""
    lines = [*columns(score_rows(comparison)), ""]
    if costs := cost_rows(comparison):
        lines += [*columns(costs), ""]
    facts = {
        "warning": comparison.score_warnings,
        "pairs": pairs_sentence(comparison),
        "seeds": seeds_sentence(comparison),
        "report": comparison.page,
    }
    return "\n".join([*lines, *fact_lines(facts)])


def comparison_report(comparison: ModelComparison) -> str:
    """Return the whole report in Markdown, with the plots embedded."""
    trained = [result for result in comparison.models if result.costs]
    tokens = sorted({run.trained_tokens for result in trained for run in result.runs})
    settings = [
        {"setting": name, "value": ", ".join(value) if isinstance(value, list) else value}
        for name, value in {**comparison.settings, "dataset": comparison.dataset_id}.items()
        if value is not None
    ]
    return render(
        "extensions/comparison/comparison_page.md.jinja",
        comparison=comparison,
        trained=trained,
        trained_tokens=" to ".join(f"{count:,}" for count in dict.fromkeys((*tokens[:1], *tokens[-1:]))),
        scores=score_rows(comparison),
        costs=cost_rows(comparison),
        closeness=(pairs_sentence(comparison), seeds_sentence(comparison)),
        pairs=[pair_row(pair) for pair in comparison.pairs],
        trials=trial_rows(comparison),
        settings=settings,
    )


def comparison_html(comparison: ModelComparison) -> str:
    """Return the whole report as one HTML page that needs no other files."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark").enable("table").render(comparison_report(comparison))
    return render("extensions/comparison/comparison_page.html.jinja", corpus_name=comparison.corpus_name, body=body)


def registered_text(comparison: RegisteredComparison) -> str:
    """Return the text that `rnnlm compare --against` prints."""
    split = SPLIT_NAMES[comparison.split]
    rows = [
        {
            "model": name,
            f"{split} bits/byte": f"{score.bits_per_byte:.4f}",
            f"{split} perplexity": f"{score.perplexity:.2f}",
            "tokens": f"{score.tokens:,}",
        }
        for name, score in comparison.scores.items()
    ]
    facts = {
        "warning": comparison.score_warnings,
        "scored": f"split {comparison.split}, {comparison.documents:,} documents; perplexities of different tokenizers "
        "are not comparable, but bits per byte are",
    }
    pairs = columns([pair_row(pair, split) for pair in comparison.pairs])
    return "\n".join([*columns(rows), "", *pairs, "", *fact_lines(facts)])


def pairs_sentence(comparison: ModelComparison) -> str:
    """Return a sentence about the pairs of neighbours in the ranking that differ significantly."""
    names = [result.model for result in comparison.models]
    by_pair = {(pair.first, pair.second): pair for pair in comparison.pairs}
    neighbours = [by_pair[pair] for pair in zip(names, names[1:], strict=False)]
    if not neighbours:
        return "there is one model"
    unclear = [f"{short_name(pair.first)} and {short_name(pair.second)}" for pair in neighbours if not pair.is_clear]
    if not unclear:
        return "each model is clearly better than the next one (95 %, over documents)"
    return f"no clear difference (95 %, over documents) between {', '.join(unclear)}"


def seeds_sentence(comparison: ModelComparison) -> str:
    """Return a sentence about the pairs of neighbours in the ranking that differ by less than the seeds of one model.

    The sentence is empty if fewer than two models are trained.
    """
    trained = [result for result in comparison.models if result.costs]
    if len(trained) < 2:
        return ""
    if any(result.perplexity_margin is None for result in trained):
        return (
            "each model was trained once, so a small difference may come from the seed; "
            "--seeds 3 shows how much training varies"
        )
    close = [
        f"{short_name(first.model)} and {short_name(second.model)}"
        for first, second in itertools.pairwise(trained)
        if second.test_perplexity - first.test_perplexity
        <= (first.perplexity_margin or 0.0) + (second.perplexity_margin or 0.0)
    ]
    if not close:
        return "each trained model differs from the next one by more than training varies (95 %)"
    return f"no difference beyond the variation of training (95 %, over seeds) between {', '.join(close)}"


def score_rows(comparison: ModelComparison) -> TableRows:
    return [score_row(result) for result in comparison.models]


def score_row(result: ModelResult) -> dict[str, Any]:
    margin = result.perplexity_margin
    embedding = result.embedding_parameters
    return {
        "model": short_name(result.model),
        "test perplexity": f"{result.test_perplexity:.2f}" + ("" if margin is None else f" ± {margin:.2f}"),
        "test bits/byte": f"{result.bits_per_byte:.3f}",
        "units": "-" if result.hidden_size is None else str(result.hidden_size),
        "parameters": f"{result.parameters:,}",
        "embedding": "-" if embedding is None else f"{embedding / result.parameters:.0%}",
        "state": size_text(result.state_bytes),
        "reach": "-" if result.gradient_reach is None else str(result.gradient_reach),
    }


def cost_rows(comparison: ModelComparison) -> TableRows:
    return [row for result in comparison.models if (row := cost_row(result, comparison.target_perplexity))]


def cost_row(result: ModelResult, target: float | None) -> dict[str, Any] | None:
    costs = result.costs
    if costs is None or target is None:
        return None
    seconds = result.seconds_to(target)
    return {
        "model": short_name(result.model),
        "MFLOP/token": f"{(result.training_flops_per_token or 0) / 1e6:.1f}",
        "tokens/s": f"{costs.tokens_per_second:,.0f}",
        f"s to {target:.1f}": "never" if seconds is None else f"{seconds:,.1f}" if seconds < 10 else f"{seconds:,.0f}",
        "peak MiB": f"{costs.peak_mebibytes:,.0f}",
        "ms/token": f"{costs.milliseconds_per_token:.2f}",
    }


def pair_row(pair: PairDifference, split: str = "test") -> dict[str, Any]:
    return {
        "first": short_name(pair.first),
        "second": short_name(pair.second),
        f"{split} bits/byte": f"{pair.difference:+.4f}",
        "95 % interval": f"{pair.lower:+.4f} … {pair.upper:+.4f}",
        "clear": "yes" if pair.is_clear else "no",
    }


def trial_rows(comparison: ModelComparison) -> TableRows:
    return [
        {
            "model": short_name(result.model),
            "learning rate": f"{trial.settings.learning_rate:g}",
            "dropout, inputs": trial.settings.dropout_inputs,
            "dropout, outputs": trial.settings.dropout_outputs,
            "sampled validation perplexity": figure(trial.validation_perplexity),
            "sampled validation perplexity, all tokens": figure(trial.final_perplexity),
            "chosen": "yes" if trial.settings == result.settings else "",
        }
        for result in comparison.models
        for trial in result.trials
    ]


def figure(perplexity: float | None) -> str:
    return "diverged" if perplexity is None else f"{perplexity:.2f}"


def short_name(model: str) -> str:
    return NAMES.get(model, model).removesuffix(" network").removesuffix(" 5-gram")


def size_text(count: int) -> str:
    return f"{count:,} B" if count < 10_240 else f"{count / 1024:,.0f} KiB"
