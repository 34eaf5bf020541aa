"""Do scored texts cost what the model's own validation text costs? Two distributions, and how far apart they are."""

import math
from pathlib import Path

from rnnlm.errors import DatasetError
from rnnlm.home import Home, atomic_file
from rnnlm.records import Record
from rnnlm.scoring.bulk_scoring import ScoringRecord, work_folder
from rnnlm.scoring.drift_plot import draw_distributions
from rnnlm.scoring.reference_scores import find_reference
from rnnlm.scoring.score_output import reading_scores
from rnnlm.scoring.scoring_config import ScoringConfig
from rnnlm.sequences.sql_tables import Rows, table
from rnnlm.sql_statements import literal, statement

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
ENDS = [0.005, 0.995]  # the quantiles between which the picture's bins lie
BINS = 40
CHANCE = 0.001  # how often two samples of one distribution are farther apart than `noise`, at most


class Distributions(Record):
    """Bits per byte of the scored documents beside those of the reference."""

    documents: int  # scored ones that predict anything
    reference_documents: int
    distance: float  # Kolmogorov-Smirnov: 0 the same, 1 no overlap
    noise: float  # a distance that samples of these sizes reach by chance
    quantiles: Rows  # level, scored, reference
    bins: Rows  # bin, low, scored, reference
    bin_width: float


class Drift(Record):
    """What is said of a scoring."""

    drifted: bool
    threshold: float
    distributions: Distributions | None  # None: not compared,
    reason: str  # because of this
    picture: Path | None


class ScoredRecord(Record):
    """What a run of the flow leaves behind."""

    scoring: ScoringRecord
    drift: Drift


def measure_drift(home: Home, config: ScoringConfig, scoring: ScoringRecord) -> Drift:
    """The scores beside the model's reference, with a picture. Drifted is what is beyond threshold and noise both.

    A reference that is not to be had is a reason and no error: the scores are good without it.
    """
    if scoring.output is None or not scoring.totals.tokens:
        return not_compared(config, "nothing was scored")
    try:
        reference = find_reference(home, str(scoring.model_folder), config.document)
    except DatasetError as error:
        return not_compared(config, " ".join(str(error).split()))
    found = compare(scoring.output, reference)
    folder = work_folder(home, scoring.key)
    home.make(folder)
    picture = folder / f"distribution-{config.document}.png"
    with atomic_file(picture) as partial:
        draw_distributions(found, config.document, partial)
    return Drift(
        drifted=found.distance > max(config.drift_threshold, found.noise),
        threshold=config.drift_threshold,
        distributions=found,
        reason="",
        picture=picture,
    )


def not_compared(config: ScoringConfig, reason: str) -> Drift:
    return Drift(drifted=False, threshold=config.drift_threshold, distributions=None, reason=reason, picture=None)


def compare(output: Path, reference: Path) -> Distributions:
    """In SQL, over both files; the output predicts something."""
    with reading_scores(output) as connection:
        connection.execute(statement("scoring/create_shares"))
        connection.execute(statement("scoring/insert_shares"), {"reference": literal(reference)})
        (whole,) = table(connection, "scoring/measure_drift", {})
        quantiles = table(connection, "scoring/measure_quantiles", {"levels": LEVELS})
        low, high = table(connection, "scoring/measure_quantiles", {"levels": ENDS})
        first, last = min(low["scored"], low["reference"]), max(high["scored"], high["reference"])
        width = (last - first) / BINS or 1 / BINS
        bins = table(connection, "scoring/count_bins", {"low": first, "width": width, "bins": BINS})
    counts = whole["documents"], whole["reference_documents"]
    return Distributions(
        documents=counts[0],
        reference_documents=counts[1],
        distance=whole["distance"],
        noise=chance_distance(*counts),
        quantiles=quantiles,
        bins=bins,
        bin_width=width,
    )


def chance_distance(first: int, second: int) -> float:
    """What the distance of two samples of one continuous distribution exceeds with probability CHANCE.

    sqrt(-ln(CHANCE / 2) / 2) * sqrt((n + m) / (n m)), which holds for large samples (Smirnov 1948).
    """
    return math.sqrt(-math.log(CHANCE / 2) / 2) * math.sqrt((first + second) / (first * second))
