"""Measure how well and how fast bits per byte separate text of the model's kind from other text.

    python benchmarks/filter.py MODEL OTHER [--lines 2000] [--megabytes 4]

MODEL is a run's id or a registered name. The model must include an n-gram model, and its dataset must be in the home.
Wanted lines are those of its validation text. Unwanted lines are those of the file OTHER, and wanted lines with three
kinds of damage: words in another order, letters in another order within words, and a repeated part of the line. Each
method ranks all lines. The table shows the proportion of each unwanted kind that is dropped when 95 % of the wanted
lines are kept, and the area under the ROC curve for all kinds together.

The methods are bits per byte of the mixture and of the n-gram model alone; KenLM with the same counts (`rnnlm export
--format arpa`), if the `kenlm` package is installed; the proportion of unknown words; the proportion of letters among
the characters; and the factor by which zlib compresses a line.

Speed is measured by scoring each of OTHER's first lines once, with one thread, including tokenization. It is shown in
MB per second of wall-clock time, and in CPU seconds per MB, which other programs affect less. Below the table is the
speed of the whole filter, which reads JSON Lines, keeps the 80 % with the fewest bits per byte, and writes the scores
and a report. Only the start of Python is left out.

A further table shows a cascade: the n-gram model decides the clear cases, and the mixture scores the share of the lines
that are closest to the n-gram model's threshold. The table compares its decisions with those of the mixture alone.
"""

import argparse
import json
import math
import random
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from rnnlm.extensions.exports.arpa import export_arpa, spellings
from rnnlm.extensions.scoring.batch_scorer import BATCH_SETTINGS
from rnnlm.extensions.scoring.bulk_scoring import score_texts
from rnnlm.extensions.scoring.document_reader import InputDocument, documents_table
from rnnlm.extensions.scoring.document_scores import Scorer
from rnnlm.extensions.scoring.filter_config import FilterConfig
from rnnlm.extensions.scoring.reference_scores import validation_texts
from rnnlm.extensions.scoring.scoring_model import find_model
from rnnlm.extensions.scoring.text_filter import filter_texts, scoring_of
from rnnlm.models.mixture import CountMixture, save_mixture
from rnnlm.sequences.dataset_lookup import find_dataset
from rnnlm.storage.contained_paths import inside
from rnnlm.storage.home import Home, find_home
from rnnlm.tokenizers.text_tokenizer import load_tokenizer

try:
    import kenlm
except ImportError:
    kenlm = None

KEPT_SHARE = 0.95
# The shares of the lines that the mixture scores in a cascade. With 1, it scores all lines.
CASCADE_SHARES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
AT_ONCE = 4_096
# The slow methods. Their speed is measured on a text that is shorter than that of the others by the factor SLOWER.
WITH_NETWORK, SLOWER = ("mixture", "network alone"), 20
# A method for ranking lines. It returns a cost for each line. Unwanted lines should have a high cost.
Way = Callable[[list[str]], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("other", type=Path)
    parser.add_argument("--lines", type=int, default=2_000)
    parser.add_argument("--megabytes", type=float, default=4.0, help="text for the speed")
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
    # Each method loads a separate tokenizer, because a shared cache would already contain the measured text.
    mixture, network, counts, unknown = (found.load(BATCH_SETTINGS) for _ in range(4))
    assert counts.model.mixture is not None, "the model has no counts"
    counts.model.mixture = unknown.model.mixture = alone(counts.model.mixture)
    network.model.mixture = None
    ways: dict[str, Way] = {
        "mixture": lambda lines: score(mixture, lines, "bits_per_byte"),
        "network alone": lambda lines: score(network, lines, "bits_per_byte"),
        "counts alone": lambda lines: score(counts, lines, "bits_per_byte"),
        "unknown words": lambda lines: score(unknown, lines, "unknown_rate"),
        "letters": lambda lines: np.array([-sum(map(str.isalpha, line)) / len(line) for line in lines]),
        "zlib": lambda lines: np.array([-len(zlib.compress(line.encode())) / len(line.encode()) for line in lines]),
    }
    if kenlm is not None:
        ways["KenLM"] = kenlm_way(found.folder)
    sizes = np.cumsum([len(line.encode()) + 1 for line in other])
    text = other[: int(np.searchsorted(sizes, options.megabytes * 1e6)) + 1]
    some = text[: len(text) // SLOWER]
    print(f"{len(wanted):,} lines of each kind; for the speed {len(text):,}, with a network {len(some):,}\n")
    print("| way | " + " | ".join(f"{kind}, dropped" for kind in kinds) + " | ROC | MB/s | CPU s/MB |")
    print("|---" * (len(kinds) + 4) + "|")
    costs: dict[str, np.ndarray] = {}
    for name, way in ways.items():
        good = way(wanted)
        line = np.quantile(good, KEPT_SHARE)
        bad = {kind: way(lines) for kind, lines in kinds.items()}
        dropped = " | ".join(f"{(costs > line).mean():.0%}" for costs in bad.values())
        costs[name] = np.concatenate([good, *bad.values()])
        area = roc(good, costs[name][len(good) :])
        cells = speed(way, some if name in WITH_NETWORK else text)
        print(f"| {name} | {dropped} | {area:.3f} | {cells} |", flush=True)
    print_cascades(costs["counts alone"], costs["mixture"], len(wanted))
    with tempfile.TemporaryDirectory() as scratch:
        of_counts = Path(scratch, "model")
        shutil.copytree(found.folder, of_counts)
        save_mixture(counts.model.mixture, of_counts)
        # The first call is not timed, because it imports the modules that a filter needs.
        whole_filter(of_counts, Path(scratch, "first"), text[:100])
        print("\n| `rnnlm filter` with | MB/s | CPU s/MB |\n|---|---|---|")
        for kind, folder, lines in (("mixture", found.folder, some), ("counts alone", of_counts, text)):
            print(f"| {kind} | {speed(partial(whole_filter, folder, Path(scratch, kind)), lines)} |", flush=True)


def print_cascades(counts: np.ndarray, mixture: np.ndarray, wanted: int) -> None:
    """Print how often cascades of the two models decide otherwise than the mixture alone.

    The arrays contain the costs of all lines, (lines,), and begin with those of the `wanted` lines.
    """
    # The costs beyond each model's threshold. They are positive for the lines that the model drops.
    beyond_counts, beyond_mixture = (costs - np.quantile(costs[:wanted], KEPT_SHARE) for costs in (counts, mixture))
    of_counts, of_mixture, distances = beyond_counts > 0, beyond_mixture > 0, np.abs(beyond_counts)
    print("\n| scored by the mixture | decided otherwise | wanted, dropped | unwanted, dropped |\n|---|---|---|---|")
    for share in CASCADE_SHARES:
        dropped = np.where(distances <= np.quantile(distances, share), of_mixture, of_counts)
        otherwise = (dropped != of_mixture).mean()
        print(f"| {share:.0%} | {otherwise:.1%} | {dropped[:wanted].mean():.1%} | {dropped[wanted:].mean():.1%} |")


def alone(mixture: CountMixture) -> CountMixture:
    """Return the n-gram model of a mixture alone, as a mixture that gives it the weight 1."""
    return replace(mixture, shares=np.ones_like(mixture.shares))


def speed(run: Callable[[list[str]], object], lines: list[str]) -> str:
    """Return two cells of the table: MB per second of wall-clock time, and CPU seconds per MB."""
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    start = time.perf_counter(), time.process_time()
    run(lines)
    return f"{megabytes / (time.perf_counter() - start[0]):.2f} | {(time.process_time() - start[1]) / megabytes:.2f}"


def whole_filter(model: Path, scratch: Path, lines: list[str]) -> None:
    """Run `rnnlm filter` in a new rnnlm home, keeping the 80 % of the lines with the fewest bits per byte."""
    crawl = scratch / "crawl.jsonl"
    scratch.mkdir()
    crawl.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    config = FilterConfig(input=str(crawl), output=str(scratch / "kept"), model=str(model), keep_share=0.8)
    home = Home(scratch / "home")
    filter_texts(home, config, score_texts(home, scoring_of(config)))


def shuffled(draw: random.Random) -> Callable[[str], str]:
    return lambda word: "".join(draw.sample(word, len(word)))


def score(scorer: Scorer, lines: list[str], column: str) -> np.ndarray:
    values: list[float | None] = []
    for start in range(0, len(lines), AT_ONCE):
        documents = [InputDocument(n, "", n, None, line) for n, line in enumerate(lines[start : start + AT_ONCE])]
        values += scorer(documents_table(documents))[column].to_pylist()
    return np.array([0.0 if value is None else value for value in values])


def kenlm_way(folder: Path) -> Way:
    """Return a function that computes bits per byte with KenLM on the model's tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "counts.arpa"
        export_arpa(folder, path)
        model = kenlm.Model(str(path))
    tokenizer = load_tokenizer(folder)
    words = spellings(tokenizer.pieces(range(tokenizer.vocabulary_size)))

    def costs(lines: list[str]) -> np.ndarray:
        token_ids, lengths = tokenizer.encode_lines(lines)
        spelled = map(words.__getitem__, token_ids.tolist())
        sizes = [len(line.encode()) + 1 for line in lines]
        scores = [model.score(" ".join(islice(spelled, length))) for length in lengths]
        return np.array([-value / math.log10(2) / size for value, size in zip(scores, sizes, strict=True)])

    return costs


def roc(good: np.ndarray, bad: np.ndarray) -> float:
    """Return the area under the ROC curve, which is P(cost of an unwanted line > cost of a wanted line).

    Ties count as half (Mann and Whitney 1947).
    """
    ordered = np.sort(good)
    cheaper, not_dearer = (np.searchsorted(ordered, bad, side).mean() for side in ("left", "right"))
    return float((cheaper + not_dearer) / 2 / len(good))


if __name__ == "__main__":
    main()
