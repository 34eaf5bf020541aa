"""Simulate nightly promotions with the losses of real models, to compare the champions that each policy chooses.

python benchmarks/promotion_policy.py TEXT OTHER_TEXT [--models 6] [--nights 200] [--series 10] [--set FIELD=VALUE …]

Models of several seeds are trained on both texts with the `smoke` preset, and scored on lines of both texts that none
of them has seen. Each simulated nightly run then draws a candidate of a random seed and a random 70 % of the lines. All
decisions are made by the code of the registry.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from untracked import untracked

from rnnlm.config import RegistryConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.paired.bootstrap import Units, evidence_from
from rnnlm.evaluation.paired.holdout_documents import comparison_documents, read_texts
from rnnlm.evaluation.paired.paired_losses import Contestant, line_rows, load_contestant
from rnnlm.evaluation.paired.seen_text import write_seen_text
from rnnlm.registry.promotion import Decision, decide, joined
from rnnlm.registry.version_tags import corpus_folder
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.training.training_run import run_training

MONTH = 30  # The number of nightly runs in a month.
SHARE = 0.7  # The fraction of the lines that is drawn for each nightly run.


@dataclass(frozen=True)
class Version:
    """A simulated version of a model. Its losses are the losses of a trained model, multiplied by `factor`."""

    model: int
    factor: float = 1.0


class Losses:
    """The losses of several models on one text: nats of shape (models, lines), and byte_counts of shape (lines,)."""

    def __init__(self, nats: np.ndarray, byte_counts: np.ndarray) -> None:
        self.nats, self.byte_counts = nats, byte_counts

    def of(self, version: Version, lines: np.ndarray) -> np.ndarray:
        losses: np.ndarray = self.nats[version.model, lines] * version.factor
        return losses

    def per_byte(self, version: Version, lines: np.ndarray) -> float:
        return float(self.of(version, lines).sum() / self.byte_counts[lines].sum())


class Registry:
    """The champion and the best version of the month, determined in the same way as by rnnlm/registry."""

    def __init__(self, first: Version, config: RegistryConfig) -> None:
        self.config, self.versions = config, [first]
        self.champion = self.best = 0
        self.comparisons = 0
        self.was_champion = {0: 0}  # For each version, the last nightly run in which it was champion.

    def register(self, night: int, candidate: Version, losses: Losses, lines: np.ndarray) -> bool:
        """Register a candidate, and return True if it is champion now."""
        number = len(self.versions)
        self.versions.append(candidate)
        self.was_champion[self.champion] = night
        if night - self.was_champion.get(self.best, night) > MONTH:
            self.best = self.champion
        self.comparisons += 1
        decision, beside_best = self.against(self.champion, candidate, losses, lines), None
        if decision.alias == "champion" and self.best != self.champion and self.config.policy == "newer":
            beside_best = self.against(self.best, candidate, losses, lines)
        decision = joined(decision, beside_best, number, self.best)
        assert decision.best_version is not None
        self.best = decision.best_version
        if decision.alias == "champion":
            self.champion, self.comparisons = number, 0
        return decision.alias == "champion"

    def against(self, rival: int, candidate: Version, losses: Losses, lines: np.ndarray) -> Decision:
        own, other = (losses.of(one, lines) for one in (candidate, self.versions[rival]))
        sizes = losses.byte_counts[lines]
        sums = [float(part.sum() / sizes.sum()) for part in (own, other)]
        totals = {
            "documents": len(lines),
            "lines": len(lines),
            "byte_count": int(sizes.sum()),
            "candidate_nats_per_byte": sums[0],
            "champion_nats_per_byte": sums[1],
            "difference": sums[0] - sums[1],
        }
        better = self.config.policy == "better"
        found = evidence_from(totals, Units(own - other, sizes), self.config, self.comparisons, must_be_better=better)
        return decide(found, rival, self.config)


def measured(texts: list[str], count: int, settings: list[str]) -> tuple[dict[str, Losses], dict[str, list[int]]]:
    """Train `count` models per text, and return the losses of all models on each text's lines for comparing models.

    Also return the numbers of the models that were trained on each text.
    """
    contestants: list[Contestant] = []
    trained, grounds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for text in texts:
            config = build_config("smoke", ["training.device=cpu", *settings], text)
            dataset = prepare_dataset(home, config)
            write_seen_text(dataset, home.root / "seen.parquet")
            corpus = corpus_folder(home, dataset)
            grounds[text] = corpus, comparison_documents(dataset, corpus, [home.root / "seen.parquet"], 2_000)
            trained[text] = list(range(len(contestants), len(contestants) + count))
            for seed in range(count):
                training = config.training.model_copy(update={"seed": seed})
                run = run_training(home, config.model_copy(update={"training": training}), dataset, untracked)
                contestants.append(load_contestant(run.model_folder))
        losses = {}
        for text, (corpus, documents) in grounds.items():
            rows = [
                pa.concat_tables(line_rows("candidate", one, batch) for batch in read_texts(corpus, documents))
                for one in contestants
            ]
            nats = np.array([table["total_nats"].to_numpy() for table in rows])
            losses[text] = Losses(nats, rows[0]["byte_count"].to_numpy())
    return losses, trained


def nightly(draw: np.random.Generator, losses: Losses, at_most: int) -> np.ndarray:
    """Draw random line numbers as the held-out text of one nightly run."""
    count = min(at_most, int(SHARE * len(losses.byte_counts)))
    chosen: np.ndarray = np.sort(draw.choice(len(losses.byte_counts), count, replace=False))
    return chosen


def simulate(
    losses: Losses, other: Losses, own: list[int], others: list[int], config: RegistryConfig, at_most: int, seed: int,
    nights: int,
) -> list[float]:  # fmt: skip
    """Simulate a series of nightly runs, and return four values.

    These are the increase in the champions' loss in percent if all candidates are equally good, the number of nightly
    runs until a model that is 1 % better than the others becomes champion, the number of nightly runs until there is a
    champion for a new topic, and the number of broken models that became champion.
    """
    draw = np.random.default_rng(seed)
    every = np.arange(len(losses.byte_counts))

    def tonight() -> tuple[Version, np.ndarray]:
        return Version(int(draw.choice(own))), nightly(draw, losses, at_most)

    registry = Registry(tonight()[0], config)
    served, mean, broken = [], float(np.mean([losses.per_byte(Version(model), every) for model in own])), 0
    for night in range(1, nights + 1):
        candidate, lines = tonight()
        # Every fifth candidate is broken, which simulates an interrupted, diverged or wrongly configured training run.
        if night % 5 == 0:
            wrong = Version(candidate.model, float(draw.choice([1.1, 2.0, np.inf, np.nan])))
            broken += registry.register(night, wrong, losses, lines)
        else:
            registry.register(night, candidate, losses, lines)
        served.append(losses.per_byte(registry.versions[registry.champion], every))
    cost = 100 * (float(np.mean(served)) / mean - 1)

    waits = []
    for _ in range(10):
        for wait in range(1, nights):
            candidate, lines = tonight()
            better = Version(candidate.model, 0.99)
            if registry.register(night + wait, better, losses, lines):
                break
        waits.append(wait)
        # An ordinary candidate replaces the champion, so that the next better model is compared with it.
        registry.versions[registry.champion] = candidate
        registry.best = registry.champion

    for change in range(1, nights):
        candidate, lines = Version(int(draw.choice(others))), nightly(draw, other, at_most)
        registry.register(night + change, candidate, other, lines)
        champion = other.per_byte(registry.versions[registry.champion], lines)
        if champion <= 1.01 * other.per_byte(candidate, lines):
            break
    return [cost, float(np.mean(waits)), float(change), float(broken)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs=2)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--nights", type=int, default=200)
    parser.add_argument("--series", type=int, default=10)
    options = parser.parse_args()
    losses, trained = measured(options.texts, options.models, options.set)
    text, other = options.texts
    every = np.arange(len(losses[text].byte_counts))
    alone = [losses[text].per_byte(Version(model), every) for model in trained[text]]
    print(f"{options.models} seeds differ by {100 * np.ptp(alone) / np.mean(alone):.2f} %; {len(every):,} lines")
    heads = ("policy", "lines", "loss over equal nights", "nights to 1 % better", "to a new topic", "broken served")
    print("| " + " | ".join(heads) + " |")
    print("|---|---|---|---|---|---|")
    for at_most in (60, 250, 2_000):
        for policy in ("newer", "better"):
            config = RegistryConfig(policy=policy, resamples=400)
            found = [
                simulate(
                    losses[text], losses[other], trained[text], trained[other], config, at_most, seed, options.nights
                )
                for seed in range(options.series)
            ]
            cost, wait, change, broken = np.mean(found, axis=0)
            worst = max(row[0] for row in found)
            lines = min(at_most, int(SHARE * len(every)))
            print(
                f"| {policy} | {lines:,} | {cost:+.2f} % (worst {worst:+.2f} %) | {wait:.1f} | {change:.1f} "
                f"| {broken:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
