"""The report on the text that surprises a model."""

from typing import Any

from rnnlm.config import PipelineConfig
from rnnlm.display.text_layout import TableRows, shorten, span
from rnnlm.evaluation.measurements import Measured, ModelMeasurement
from rnnlm.evaluation.score_tables import SPLIT_NAMES
from rnnlm.extensions.surprise.surprise_measurement import MINIMUM_TOKENS, Surprise, surprise_of_run
from rnnlm.extensions.surprise.surprise_plots import bucket_name
from rnnlm.reports.page import Page
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord

DISTANCES = ("neither", "the token before", "the one before that")


def surprise_tables(surprise: Surprise) -> dict[str, TableRows]:
    """Return tables with formatted values by title, in the order of the report."""
    measured = surprise.tables
    heading = f"{SPLIT_NAMES[surprise.split]} perplexity"
    return {
        f"Worst sentences (of at least {MINIMUM_TOKENS} tokens)": [
            {
                "sentence": row["sentence_id"],
                "tokens": f"{row['tokens']:,}",
                heading: f"{row['perplexity']:,.1f}",
                "text": shorten(row["text"]),
            }
            for row in measured.worst_sentences
        ],
        "By position in the sentence": [
            {"position": span(row["first_position"] + 1, row["last_position"] + 1)} | loss_columns(row, heading)
            for row in measured.by_position
        ],
        "By how often training predicts the token": [
            {
                "times": bucket_name(row["first_count"], row["last_count"]),
                "different": f"{row['types']:,}",
                **loss_columns(row, heading),
            }
            for row in measured.by_frequency
        ],
        "By <unk> among the two tokens before": [
            {"<unk> is": DISTANCES[row["distance"]]} | loss_columns(row, heading) for row in measured.by_neighbours
        ],
    }


def loss_columns(row: dict[str, Any], heading: str) -> dict[str, str]:
    return {
        "tokens": f"{row['tokens']:,}",
        "nats/token": f"{row['nll_nats_per_token']:.3f}",
        heading: f"{row['perplexity']:,.1f}",
        "of the loss": f"{row['share_of_loss']:.1%}",
    }


def surprise_page(surprise: Surprise) -> Page:
    measured = surprise.tables
    sample = f" (a random {measured.share:.2%} of the sentences)" if measured.share < 1 else ""
    sums = f"{measured.tokens:,} tokens{sample}, {measured.nll_nats:,.1f} nats"
    return Page(
        title="Where the model is surprised",
        facts={
            "losses": surprise.folder,
            surprise.split: f"{sums}, {SPLIT_NAMES[surprise.split]} perplexity {measured.perplexity:.2f}",
        },
        tables=surprise_tables(surprise),
        pictures={path.stem.replace("_", " ").capitalize(): path for path in surprise.pictures},
    )


def surprise_of(home: Home, config: PipelineConfig, dataset: DatasetRecord, run: RunRecord, force: bool) -> Measured:
    found = surprise_of_run(home, dataset, run, config.evaluation, force=force)
    return Measured(surprise_page(found).markdown())


SURPRISE = ModelMeasurement("surprise", surprise_of)
