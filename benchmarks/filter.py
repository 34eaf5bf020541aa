"""How well bits per byte separate text like the model's from other text, and how fast, beside KenLM and simple rules.

    python benchmarks/filter.py MODEL OTHER [--lines 2000] [--megabytes 4]

MODEL: a run's id or a registered name, mixed with counts, whose dataset is in the home. Wanted are lines of its
validation text. Unwanted are lines of the file OTHER, and three kinds of damage to wanted lines: words in another
order, letters in another order within words, and a part of the line repeated. Each way of scoring ranks all lines.
Printed is the share of each unwanted kind that is dropped when 95 % of the wanted lines are kept, and the area under
the ROC curve of all together.

The ways: the mixture and the counts alone, in bits per byte; KenLM on the same counts (`rnnlm export --format arpa`),
in bits per byte, if the package `kenlm` is installed; the share of unknown words; letters among the characters; and how
far zlib shrinks a line. Speed is that of scoring lines with one thread, tokenization included.
"""

import argparse
import math
import random
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from rnnlm.home import find_home
from rnnlm.models.arpa import export_arpa, spellings
from rnnlm.scoring.batch_scorer import BATCH_SETTINGS
from rnnlm.scoring.document_reader import InputDocument
from rnnlm.scoring.document_scores import Scorer
from rnnlm.scoring.reference_scores import validation_texts
from rnnlm.scoring.scoring_model import find_model
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.storage.contained_paths import inside

try:
    import kenlm
except ImportError:
    kenlm = None

KEPT_SHARE = 0.95
AT_ONCE = 4_096
Way = Callable[[list[str]], np.ndarray]  # lines → a cost for each; high is unwanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("other", type=Path)
    parser.add_argument("--lines", type=int, default=2_000)
    parser.add_argument("--megabytes", type=float, default=4.0, help="text for the speed, wanted lines repeated")
    options = parser.parse_args()
    torch.set_num_threads(1)
    home = find_home()
    found = find_model(home, options.model)
    dataset = find_dataset(home, str(inside(home.datasets, found.origin.dataset_id)))
    assert dataset is not None, "the model's dataset is not in this home"
    texts, _ = validation_texts(home, dataset, found, "line")
    wanted = [text for text in islice(texts, options.lines) if len(text) > 20]
    other = [line for line in options.other.read_text(encoding="utf-8").splitlines() if len(line) > 20]
    draw = random.Random(1)
    kinds = {
        options.other.stem: other[:: max(1, len(other) // len(wanted))][: len(wanted)],
        "words in another order": [" ".join(draw.sample(line.split(), len(line.split()))) for line in wanted],
        "letters in another order": [" ".join(map(shuffled(draw), line.split())) for line in wanted],
        "a part repeated": [(line[: len(line) // 3] + " ") * 3 for line in wanted],
    }
    mixture = found.load(BATCH_SETTINGS)
    counts = found.load(BATCH_SETTINGS)
    assert counts.model.mixture is not None, "the model has no counts"
    shares = np.ones_like(counts.model.mixture.shares)
    counts.model.mixture = replace(counts.model.mixture, shares=shares)
    ways: dict[str, Way] = {
        "mixture": lambda lines: score(mixture, lines, "bits_per_byte"),
        "counts alone": lambda lines: score(counts, lines, "bits_per_byte"),
        "unknown words": lambda lines: score(counts, lines, "unknown_rate"),
        "letters": lambda lines: np.array([-sum(map(str.isalpha, line)) / len(line) for line in lines]),
        "zlib": lambda lines: np.array([-len(zlib.compress(line.encode())) / len(line.encode()) for line in lines]),
    }
    if kenlm is not None:
        ways["KenLM"] = kenlm_way(found.folder, mixture)
    speed_lines = (wanted * (1 + int(options.megabytes * 1e6) // sum(map(len, wanted))))[: len(wanted) * 1_000]
    speed_lines = speed_lines[: int(options.megabytes * 1e6 * len(wanted) / sum(len(line) + 1 for line in wanted))]
    print(f"{len(wanted):,} lines of each kind; {len(speed_lines):,} lines for the speed\n")
    print("| way | " + " | ".join(f"{kind}, dropped" for kind in kinds) + " | ROC | MB/s |")
    print("|---" * (len(kinds) + 3) + "|")
    for name, way in ways.items():
        good = way(wanted)
        line = np.quantile(good, KEPT_SHARE)
        bad = {kind: way(lines) for kind, lines in kinds.items()}
        dropped = [f"{(costs > line).mean():.0%}" for costs in bad.values()]
        size = sum(len(text.encode()) + 1 for text in speed_lines)
        start = time.perf_counter()
        way(speed_lines)
        speed = size / (time.perf_counter() - start) / 1e6
        print(f"| {name} | {' | '.join(dropped)} | {roc(good, np.concatenate(list(bad.values()))):.3f} | {speed:.2f} |")


def shuffled(draw: random.Random) -> Callable[[str], str]:
    return lambda word: "".join(draw.sample(word, len(word)))


def score(scorer: Scorer, lines: list[str], column: str) -> np.ndarray:
    values = []
    for start in range(0, len(lines), AT_ONCE):
        documents = [InputDocument(n, "", n, None, line) for n, line in enumerate(lines[start : start + AT_ONCE])]
        values += scorer(documents)[column].to_pylist()
    return np.array([0.0 if value is None else value for value in values])


def kenlm_way(folder: Path, scorer: Scorer) -> Way:
    """KenLM's bits per byte of the model's tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "counts.arpa"
        export_arpa(folder, path)
        model = kenlm.Model(str(path))
    words = spellings(scorer.tokenizer.pieces(range(scorer.tokenizer.vocabulary_size)))

    def costs(lines: list[str]) -> np.ndarray:
        encoded = scorer.tokenizer.encode_lines(lines)
        sizes = [len(line.encode()) + 1 for line in lines]
        scores = [model.score(" ".join([words[token] for token in ids])) for ids in encoded]
        return np.array([-value / math.log10(2) / size for value, size in zip(scores, sizes, strict=True)])

    return costs


def roc(good: np.ndarray, bad: np.ndarray) -> float:
    """The probability that an unwanted line costs more than a wanted one, ties counted half (Mann and Whitney 1947)."""
    ordered = np.sort(good)
    cheaper, not_dearer = (np.searchsorted(ordered, bad, side).mean() for side in ("left", "right"))
    return float((cheaper + not_dearer) / 2 / len(good))


if __name__ == "__main__":
    main()
