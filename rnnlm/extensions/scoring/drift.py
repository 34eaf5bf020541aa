"""Measure drift: the distance between the bits per byte in scored texts and in the model's validation text."""

import math
from itertools import accumulate
from pathlib import Path

from rnnlm.display.plots import PALE, RED, new_figure, set_titles
from rnnlm.display.text_layout import TableRows
from rnnlm.errors import CorpusError, DatasetError
from rnnlm.extensions.scoring import SCORES_DRIFTED
from rnnlm.extensions.scoring.bulk_scoring import ScoringRecord, work_folder
from rnnlm.extensions.scoring.reference_scores import find_reference
from rnnlm.extensions.scoring.score_output import reading_scores
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.strange_documents import StrangeDocument
from rnnlm.sequences.sql_tables import table
from rnnlm.storage.home import Home, atomic_file
from rnnlm.storage.records import NightEvent, Record
from rnnlm.storage.sql_statements import literal, statement

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
PLOTTED_LEVELS = [0.005, 0.995]  # The quantiles of the bits per byte that limit the plot.
BINS = 40
CHANCE = 0.001  # The probability that the distance between two samples of the same distribution exceeds `noise`.


class Distributions(Record):
    """The distributions of bits per byte in the scored documents and in the reference."""

    documents: int  # The number of scored documents that have a predicted token.
    reference_documents: int
    # The Kolmogorov-Smirnov distance, from 0 for equal distributions to 1 for distributions that do not overlap.
    distance: float
    noise: float  # The distance that two samples of these sizes can have by chance; see chance_distance().
    quantiles: TableRows  # The rows have the columns level, scored and reference.
    bins: TableRows  # The rows have the columns bin, low, scored and reference.
    bin_width: float


class Drift(Record):
    drifted: bool = False
    threshold: float
    distributions: Distributions | None = None  # The compared distributions, or None if the scores were not compared.
    reason: str = ""  # The reason why the scores were not compared, or "" if they were.
    picture: Path | None = None


class ScoredRecord(Record):
    """The result of the `score` flow."""

    scoring: ScoringRecord
    drift: Drift
    strange: tuple[StrangeDocument, ...] = ()  # The strangest documents. The user chooses how many are listed.


def measure_drift(home: Home, config: ScoringConfig, scoring: ScoringRecord) -> Drift:
    """Compare the scores with the model's reference scores, and plot both distributions.

    The scores have drifted if the distance exceeds both the threshold and the noise. If there are no reference scores,
    the result contains the reason. No error is raised, because the scores remain valid.
    """
    if scoring.output is None or not scoring.totals.tokens:
        return Drift(threshold=config.drift_threshold, reason="nothing was scored")
    try:
        reference = find_reference(home, str(scoring.model_folder), config.document)
    except (CorpusError, DatasetError) as error:
        return Drift(threshold=config.drift_threshold, reason=" ".join(str(error).split()))
    found = distributions(scoring.output, reference)
    folder = work_folder(home, scoring.key)
    home.make(folder)
    picture = folder / f"distribution-{config.document}.png"
    with atomic_file(picture) as partial:
        draw_distributions(found, config.document, partial)
    return Drift(
        drifted=found.distance > max(config.drift_threshold, found.noise),
        threshold=config.drift_threshold,
        distributions=found,
        picture=picture,
    )


def drift_events(config: ScoringConfig, scoring: ScoringRecord, drift: Drift) -> tuple[NightEvent, ...]:
    """Return a SCORES_DRIFTED event about the model if the scores have drifted, otherwise no event."""
    found = drift.distributions
    if not drift.drifted or found is None:
        return ()
    payload = {
        "input": config.input,
        "output": str(scoring.output),
        "distance": found.distance,
        "threshold": drift.threshold,
        "noise": found.noise,
        "documents": found.documents,
        "reference_documents": found.reference_documents,
        "quantiles": found.quantiles,
    }
    message = (
        f"{config.input}: the distance between the scores of {found.documents:,} documents and those of the "
        f"validation text of {scoring.model} is {found.distance:.2f}; expected at most {drift.threshold:.2f}."
    )
    return (
        NightEvent(
            name=SCORES_DRIFTED,
            resource_id=f"rnnlm.model.{scoring.model_digest[:16]}",
            resource_name=scoring.model,
            message=message,
            payload=payload,
        ),
    )


def distributions(output: Path, reference: Path) -> Distributions:
    """Return the distributions of the scores in `output` and in `reference`, computed in SQL.

    The output must have at least one predicted token.
    """
    with reading_scores(output) as connection:
        connection.execute(statement("scoring/create_shares"))
        connection.execute(statement("scoring/insert_shares"), {"reference": literal(reference)})
        (distance,) = table(connection, "scoring/measure_drift", {})
        quantiles = table(connection, "scoring/measure_quantiles", {"levels": LEVELS})
        low, high = table(connection, "scoring/measure_quantiles", {"levels": PLOTTED_LEVELS})
        first, last = min(low["scored"], low["reference"]), max(high["scored"], high["reference"])
        width = (last - first) / BINS or 1 / BINS
        bins = table(connection, "scoring/count_bins", {"low": first, "width": width, "bins": BINS})
    noise = chance_distance(distance["documents"], distance["reference_documents"])
    return Distributions(**distance, noise=noise, quantiles=quantiles, bins=bins, bin_width=width)


def chance_distance(first: int, second: int) -> float:
    """Return the distance that two samples of one continuous distribution exceed with probability CHANCE.

    It is sqrt(-ln(CHANCE / 2) / 2) * sqrt((n + m) / (n m)), an approximation for large samples (Smirnov 1948).
    """
    return math.sqrt(-math.log(CHANCE / 2) / 2) * math.sqrt((first + second) / (first * second))


def draw_distributions(found: Distributions, unit: str, picture: Path) -> None:
    """Plot the fraction of documents in each bin. A second plot shows the cumulative fractions.

    The first bin includes all lower values, and the last bin all higher ones.
    """
    figure, (above, below) = new_figure((8, 5.2), rows=2, sharex=True, height_ratios=(3, 2))
    edges = [row["low"] for row in found.bins] + [found.bins[-1]["low"] + found.bin_width]
    validation = f"validation text, {found.reference_documents:,} {unit}s"
    for column, count, colour, label in (
        ("reference", found.reference_documents, PALE, validation),
        ("scored", found.documents, RED, f"scored, {found.documents:,} documents"),
    ):
        shares = [100 * row[column] / count for row in found.bins]
        above.stairs(shares, edges, fill=column == "reference", color=colour, linewidth=1.6, label=label)
        below.plot(edges, [0.0, *accumulate(shares)], color=colour, linewidth=1.6)
    set_titles(above, "Bits per byte of the documents", y="share of documents, %")
    above.legend(frameon=False)
    below.set(xlabel="bits per byte", ylabel="at or below, %")
    figure.savefig(picture, format="png")
