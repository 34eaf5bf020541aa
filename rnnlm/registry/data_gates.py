"""Data gates before training, which warn or stop the run if the text is damaged or unlike the champion's text.

| gate       | measured fraction (0 to 1; higher is worse)                                                   |
|------------|---------------------------------------------------------------------------------------------|
| shrinkage  | how much smaller the corpus is than the champion's, in bytes                                  |
| unknown    | unknown words among the predicted tokens of a held-out split, the larger of the two           |
| duplicates | rows of the training split (documents in stream mode) that repeat another, or text of a       |
|            | held-out split in lines that occur earlier in it, the largest of the three                    |
| leakage    | text of a held-out split in lines that also occur in training, the larger of the two          |
| drift      | distance of character frequencies from the champion's training text; see character_profile    |

By default a gate stops the run only if damage is the most likely reason, and only in comparison with a champion: half
of the text is missing, or its characters are different (another script or encoding, or binary data). The other gates
only warn, because good text may also exceed their thresholds, for instance a small text with a word vocabulary.
"""

import logging
from collections.abc import Iterator
from typing import Literal

from rnnlm.config import GatesConfig, PipelineConfig
from rnnlm.corpora.character_profile import character_distance, count_characters, training_text
from rnnlm.errors import DatasetError, ModelError, TrackingError
from rnnlm.evaluation.training_overlap import CopiedShares, copied_shares, repeated_sentence, seen_sentence
from rnnlm.registry.bundle import CHARACTERS, evidence_file
from rnnlm.registry.model_lookup import find_version, registered_folder
from rnnlm.registry.registry_version import RegistryVersion
from rnnlm.registry.version_tags import corpus_folder, registered_name
from rnnlm.sequences.dataset_report import Description, describe_dataset
from rnnlm.storage.home import Home, read_json
from rnnlm.storage.records import DatasetRecord, Record, Split

logger = logging.getLogger(__name__)
Outcome = Literal["passed", "warned", "stopped", "not measured"]
CHAMPION_STAYS = "not trained, the champion stays"  # The message for a run that a gate has stopped.
Measurement = float | str  # A measured fraction, or the reason why the fraction could not be measured.
TEXT_OF: dict[Split, str] = {"train": "training text", "valid": "validation text", "test": "test text"}
GONE_TEXT = "the text of the corpus is no longer in this home"
LEAK_ADVICE = "its score partly measures memorisation, so remove the copies or give the corpus its own splits"
REPEAT_ADVICE = "a few passages then decide the score, so remove the copies from the corpus"


class GateResult(Record):
    """The measured fraction and the outcome of a single gate."""

    gate: str
    outcome: Outcome
    share: float | None  # The measured fraction, or None if nothing was measured.
    text: str  # A description of the measured fraction, or the reason why it was not measured.
    warn_at: float | None
    stop_at: float | None


class GatesRecord(Record):
    """The results of all gates for a dataset, in the order of the table above."""

    corpus_name: str
    model_name: str  # The registered model with whose champion the dataset is compared.
    results: tuple[GateResult, ...]
    # Warnings, with advice, that the scores are misleading because held-out text is copied from the training text.
    score_warnings: tuple[str, ...] = ()

    def with_outcome(self, outcome: Outcome) -> list[GateResult]:
        return [result for result in self.results if result.outcome == outcome]

    def raise_if_stopped(self) -> None:
        """Raise a GatesError that names all gates that stop the run. Do nothing if no gate stops it."""
        if self.with_outcome("stopped"):
            raise GatesError(self)


class GatesError(DatasetError):
    """An error for all gates that stop a run before training.

    The message names all of these gates, so that a user sees every problem after one failed run.
    """

    def __init__(self, gates: GatesRecord) -> None:
        super().__init__(gates)
        self.gates = gates

    def __str__(self) -> str:
        stopped = self.gates.with_outcome("stopped")
        reasons = "; ".join(f"{result.text} (expected at most {result.stop_at:.1%})" for result in stopped)
        limits = " and ".join(f"gates.{result.gate}_stop_at" for result in stopped)
        return (
            f"{self.gates.corpus_name}: {CHAMPION_STAYS}: {reasons}.\n"
            f"Repair the text, or raise {limits} (null: never stop)."
        )


def check_gates(home: Home, config: PipelineConfig, dataset: DatasetRecord) -> GatesRecord:
    """Measure every gate, and log a warning for each gate that warns.

    If the registry cannot be read, comparisons with the champion are omitted.
    """
    description, shares = describe_dataset(home, dataset)[0], copied_shares(home, dataset)
    name = registered_name(config.registry, dataset.corpus_name)
    try:
        champion = find_version(home, name, "champion", None)
        missing = f"{name} has no champion yet"
    except TrackingError as error:  # Training continues without the comparison if MLflow is unavailable.
        champion, missing = None, f"MLflow is unavailable ({str(error).splitlines()[0]})"
    measured: dict[str, tuple[Measurement, str]] = {
        "shrinkage": (
            missing if champion is None else shrinkage(description, champion),
            "the corpus is {share} smaller than the champion's",
        ),
        "unknown": (unknown_share(description), "{share} of a held-out split's tokens are unknown words"),
        **measured_copies(description, shares),
        "drift": (
            missing if champion is None else drift(home, dataset, champion),
            "the distance of its character frequencies from the champion's text is {share}",
        ),
    }
    results = tuple(gate_result(config, gate, found, text) for gate, (found, text) in measured.items())
    record = GatesRecord(
        corpus_name=dataset.corpus_name,
        model_name=name,
        results=results,
        score_warnings=tuple(score_warnings(config.gates, shares or {})),
    )
    for result in record.with_outcome("warned"):
        if not any(warning.startswith(result.text) for warning in record.score_warnings):
            logger.warning("gates: %s; expected at most %.1f%%", result.text, 100 * (result.warn_at or 0))
    for warning in record.score_warnings:
        logger.warning("gates: %s", warning)
    return record


def gate_result(config: PipelineConfig, gate: str, found: Measurement, text: str) -> GateResult:
    """Return the result of a gate, by comparing the measured fraction `found` with the gate's thresholds.

    `text` is a sentence with a placeholder for the fraction.
    """
    warn_at = getattr(config.gates, f"{gate}_warn_at")
    stop_at = getattr(config.gates, f"{gate}_stop_at")
    outcome: Outcome = "passed"
    if isinstance(found, str):
        outcome = "not measured"
    elif stop_at is not None and found > stop_at:
        outcome = "stopped"
    elif warn_at is not None and found > warn_at:
        outcome = "warned"
    return GateResult(
        gate=gate,
        outcome=outcome,
        share=None if isinstance(found, str) else found,
        text=found if isinstance(found, str) else text.format(share=f"{found:.1%}"),
        warn_at=warn_at,
        stop_at=stop_at,
    )


def shrinkage(description: Description, champion: RegistryVersion) -> Measurement:
    before = int(champion.facts.get("corpus_bytes", 0))
    if not before:
        return f"the size of the corpus of version {champion.number} is not recorded"
    now: int = sum(row["byte_count"] for row in description.splits)
    return max(0.0, 1 - now / before)


def unknown_share(description: Description) -> float:
    return max((row["unknown_rate"] for row in held_out(description.splits)), default=0.0)


def measured_copies(
    description: Description, shares: dict[Split, CopiedShares] | None
) -> dict[str, tuple[Measurement, str]]:
    """Return the fraction and a sentence for the `duplicates` and `leakage` gates, each for its worst split."""
    unit = "rows" if description.mode == "sentence" else "documents"
    training = (duplicate_share(description), f"{{share}} of the training {unit} repeat another {unit[:-1]}")
    if shares is None:
        return {"duplicates": training, "leakage": (GONE_TEXT, GONE_TEXT)}
    leaks = leaked_texts(shares)
    return {
        "duplicates": max([training, *repeated_texts(shares)]),
        "leakage": max(leaks, default=(0.0, seen_sentence("held-out text"))),
    }


def leaked_texts(shares: dict[Split, CopiedShares]) -> list[tuple[float, str]]:
    return [(one.seen, seen_sentence(TEXT_OF[split])) for split, one in shares.items()]


def repeated_texts(shares: dict[Split, CopiedShares]) -> list[tuple[float, str]]:
    return [(one.repeated, repeated_sentence(TEXT_OF[split])) for split, one in shares.items()]


def score_warnings(config: GatesConfig, shares: dict[Split, CopiedShares]) -> Iterator[str]:
    """Yield warnings if more held-out text occurs in training or repeats itself than the gates allow."""
    for texts, warn_at, advice in (
        (leaked_texts(shares), config.leakage_warn_at, LEAK_ADVICE),
        (repeated_texts(shares), config.duplicates_warn_at, REPEAT_ADVICE),
    ):
        share, sentence = max(texts, default=(0.0, ""))
        if warn_at is not None and share > warn_at:
            yield f"{sentence.format(share=f'{share:.1%}')}; {advice}"


def duplicate_share(description: Description) -> float:
    unit = "sequence" if description.mode == "sentence" else "document"
    for row in description.duplicates:
        if row["split"] == "train":
            return float(row[f"repeated_{unit}s"] / max(1, row[f"{unit}_count"]))
    return 0.0


def held_out(rows: list[dict[str, float]]) -> Iterator[dict[str, float]]:
    return (row for row in rows if row["split"] != "train")


def drift(home: Home, dataset: DatasetRecord, champion: RegistryVersion) -> Measurement:
    if champion.facts.get("corpus_digest") == dataset.corpus_digest:
        return 0.0
    try:
        folder = registered_folder(home, champion.uri)
    except ModelError as error:
        return f"the champion cannot be loaded ({str(error).splitlines()[0]})"
    stored = evidence_file(folder, CHARACTERS)
    profile = read_json(stored) if stored else None
    text = training_text(corpus_folder(home, dataset))
    if text is None:
        return GONE_TEXT
    if profile is None:
        return f"the character frequencies of version {champion.number} are missing or damaged"
    return character_distance(profile, count_characters(text))
