"""Reports on a comparison of models: the terminal, markdown for Prefect, and one HTML page that needs nothing else."""

import itertools
from html import escape
from typing import Any

from markdown_it import MarkdownIt

from rnnlm.display.text_layout import TableRows, columns, labelled, markdown_table, picture_report
from rnnlm.evaluation.score_tables import SPLIT_NAMES
from rnnlm.lab.comparison.comparison_config import NAMES
from rnnlm.lab.comparison.document_bootstrap import PairDifference
from rnnlm.lab.comparison.model_comparison import ModelComparison
from rnnlm.lab.comparison.model_result import ModelResult
from rnnlm.lab.comparison.registered_models import RegisteredComparison

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: 0.3rem 0.8rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
code { background: #f3f3f3; padding: 0 0.2rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
  th, td { padding: 0.3rem 0.5rem; } th { white-space: normal; vertical-align: bottom; }
  p:has(> img) { overflow-x: auto; } p > img { width: 50rem; max-width: none; }
}
"""
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'  # else a phone shows it tiny


def comparison_text(comparison: ModelComparison) -> str:
    """The output of `rnnlm compare`, at most 80 columns wide."""
    lines = [*columns(score_rows(comparison)), ""]
    if costs := cost_rows(comparison):
        lines += [*columns(costs), ""]
    lines += [labelled("warning", warning) for warning in comparison.score_warnings]
    lines += [labelled("pairs", pairs_sentence(comparison))]
    if seeds := seeds_sentence(comparison):
        lines += [labelled("seeds", seeds)]
    lines += [labelled("report", str(comparison.page))]
    return "\n".join(lines)


def seeds_sentence(comparison: ModelComparison) -> str:
    """Which neighbours in the ranking differ by less than training varies. Empty if fewer than two are trained."""
    trained = [result for result in comparison.models if result.costs]
    if len(trained) < 2:
        return ""
    if any(result.perplexity_margin is None for result in trained):
        return "one run of each: a small difference may be that of the seed; --seeds 3 tells how much training varies"
    close = [
        f"{short_name(first.model)} and {short_name(second.model)}"
        for first, second in itertools.pairwise(trained)
        if second.test_perplexity - first.test_perplexity
        <= (first.perplexity_margin or 0.0) + (second.perplexity_margin or 0.0)
    ]
    if not close:
        return "each trained model differs from the next one by more than training varies (95 %)"
    return f"within the variation of training (95 %, over seeds): {', '.join(close)}"


def registered_text(comparison: RegisteredComparison) -> str:
    """The output of `rnnlm compare --against`."""
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
    scored = (
        f"split {comparison.split}, {comparison.documents:,} documents; perplexities of different tokenizers do not "
        "compare, bits per byte do"
    )
    pairs = columns([pair_row(pair, split) for pair in comparison.pairs])
    warnings = [labelled("warning", warning) for warning in comparison.score_warnings]
    return "\n".join([*columns(rows), "", *pairs, "", *warnings, labelled("scored", scored)])


def comparison_report(comparison: ModelComparison) -> str:
    """Everything in markdown, with the plots embedded."""
    parts = [f"# Models on {comparison.corpus_name}", conditions(comparison), markdown_table(score_rows(comparison))]
    if costs := cost_rows(comparison):
        parts += ["## Costs", costs_note(comparison), markdown_table(costs)]
    if comparison.pairs:
        parts += [
            "## Pairs",
            PAIRS_NOTE,
            *closeness(comparison),
            markdown_table([pair_row(pair) for pair in comparison.pairs]),
        ]
    parts += [picture_report("Plots", comparison.picture)]
    if trials := trial_rows(comparison):
        parts += ["## Tuning trials", markdown_table(trials)]
    return "\n\n".join([*parts, "## Settings", settings_list(comparison)])


def comparison_html(comparison: ModelComparison) -> str:
    """One page without references to other files."""
    body = MarkdownIt("commonmark").enable("table").render(comparison_report(comparison))
    title = escape(f"Models on {comparison.corpus_name}")
    head = f'<meta charset="utf-8">{VIEWPORT}<title>{title}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'


def conditions(comparison: ModelComparison) -> str:
    trained = [result for result in comparison.models if result.costs]
    tokens = sorted({run.trained_tokens for result in trained for run in result.runs})
    sizes = [result.parameters for result in trained]
    said = [
        f"Test split of {comparison.test_tokens:,} tokens, vocabulary {comparison.vocabulary_size:,}.",
        *(f"**Warning: {warning}.**" for warning in comparison.score_warnings),
        "All models read the same tokens in the same batches and are trained by the same loop.",
    ]
    if trained:
        said += [
            f"Parameters: {min(sizes):,} to {max(sizes):,}, embeddings included.",
            f"Trained tokens: {' to '.join(f'{count:,}' for count in dict.fromkeys((tokens[0], tokens[-1])))}.",
            f"Tuning trials of each model: {comparison.settings['trials']}.",
            f"Seeds: {comparison.settings['seeds']}.",
        ]
    return " ".join(said)


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


def costs_note(comparison: ModelComparison) -> str:
    return (
        "MFLOP/token: of training on a token, by the formula in `rnnlm/lab/comparison/training_costs.py`. Speed and "
        "memory are measured side by side, each model in a process of its own. "
        f"s to {comparison.target_perplexity:.1f}: seconds of training until that sampled validation perplexity, "
        "at the measured speed. ms/token: of generating one text. state: of one text. reach: tokens back at which the "
        "gradient is at least 1 % of that at the loss's own token."
    )


def closeness(comparison: ModelComparison) -> list[str]:
    """Warnings about differences that are too small to believe."""
    return [f"Of the ranking: {one}." for one in (pairs_sentence(comparison), seeds_sentence(comparison)) if one]


PAIRS_NOTE = (
    "By how many bits per byte the first model costs more than the second on the same test documents, with a 95 % "
    "interval from 10,000 resamples of the documents. It tells whether the difference is that of the sampled text; the "
    "interval over seeds above tells how much training varies."
)


def pair_row(pair: PairDifference, split: str = "test") -> dict[str, Any]:
    return {
        "first": short_name(pair.first),
        "second": short_name(pair.second),
        f"{split} bits/byte": f"{pair.difference:+.4f}",
        "95 % interval": f"{pair.lower:+.4f} … {pair.upper:+.4f}",
        "clear": "yes" if pair.is_clear else "no",
    }


def pairs_sentence(comparison: ModelComparison) -> str:
    """Which neighbours in the ranking are told apart."""
    names = [result.model for result in comparison.models]
    by_pair = {(pair.first, pair.second): pair for pair in comparison.pairs}
    neighbours = [by_pair[pair] for pair in zip(names, names[1:], strict=False)]
    if not neighbours:
        return "there is one model"
    unclear = [f"{short_name(pair.first)} and {short_name(pair.second)}" for pair in neighbours if not pair.is_clear]
    if not unclear:
        return "each model is clearly better than the next one (95 %, over documents)"
    return f"no clear difference (95 %, over documents) between {', '.join(unclear)}"


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


def settings_list(comparison: ModelComparison) -> str:
    rows = [
        {"setting": name, "value": ", ".join(value) if isinstance(value, list) else value}
        for name, value in comparison.settings.items()
        if value is not None
    ]
    return markdown_table([*rows, {"setting": "dataset", "value": comparison.dataset_id}])


def figure(perplexity: float | None) -> str:
    return "diverged" if perplexity is None else f"{perplexity:.2f}"


def short_name(model: str) -> str:
    return NAMES.get(model, model).removesuffix(" network").removesuffix(" 5-gram")


def size_text(count: int) -> str:
    return f"{count:,} B" if count < 10_240 else f"{count / 1024:,.0f} KiB"
