"""Measure gain and time of a warm start, by nightly runs on a growing text, with and without the champion's weights.

    OMP_NUM_THREADS=1 python benchmarks/warm_start.py ../shared/data/brown.txt --home FOLDER

Two series of nightly runs, each with a separate registry, read the same texts. The first text is one half of the whole
text, and each run adds a little. Paragraphs of five lines are in random order, so that all runs have the same kind of
text. Training, evaluation and registration are real, but without Prefect. Seconds are the CPU time of the training
stage alone.
"""

import argparse
import logging
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ablations import untracked

from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.perplexity import evaluate_run
from rnnlm.generation.generate import generate_samples
from rnnlm.registry.registration import register_model
from rnnlm.registry.starting_model import choose_start
from rnnlm.registry.version_tags import Candidate
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.storage.home import Home
from rnnlm.storage.records import RunRecord
from rnnlm.storage.result_records import RegisteredVersion
from rnnlm.training.training_run import run_training

PARAGRAPH_LINES = 5
SMALL = [  # These settings limit a nightly run to 15 seconds and the validation text to a few hundred documents.
    "corpus.name=growing",
    "corpus.valid_share=0.2",
    "tokenizer.vocabulary_size=4000",
    "model.hidden_size=128",
    "training.device=cpu",
    "training.validation.tokens=2000",
    "registry.minimum_units=100",
]


@dataclass(frozen=True)
class Night:
    seconds: float  # The CPU time of training in seconds.
    run: RunRecord
    bits_per_byte: float  # The bits per byte on the test split.
    registered: RegisteredVersion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--home", type=Path, required=True, help="an empty folder")
    parser.add_argument("--nights", type=int, default=10)
    parser.add_argument("--megabytes", type=float, default=1.0, help="of text in the last night")
    parser.add_argument("--first-share", type=float, default=0.55, help="of that text in the first night")
    parser.add_argument("--only", nargs="+", choices=["nothing", "champion"], default=["nothing", "champion"])
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.FIELD=VALUE")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")

    paragraphs = read_paragraphs(options.text, int(1e6 * options.megabytes))
    totals = dict.fromkeys(options.only, 0.0)
    columns = [f"{name}: {column}" for name in options.only for column in ("CPU s", "bits/byte", "decision")]
    print(f"| night | kB | {' | '.join(columns)} | rows kept |\n|{'---|' * (len(columns) + 3)}", flush=True)
    for number in range(options.nights):
        share = options.first_share + (1 - options.first_share) * number / max(1, options.nights - 1)
        text = options.home / "growing.txt"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("".join(paragraphs[: round(share * len(paragraphs))]), encoding="utf-8")
        cells, kept = [], ""
        for start in options.only:
            overrides = [*SMALL, *options.set, f"training.start_from={start}"]
            night = run_night(Home(options.home / start), build_config("default", overrides, str(text)))
            totals[start] += night.seconds
            cells += [f"{night.seconds:.0f}", f"{night.bits_per_byte:.4f}", decision(night.registered)]
            if night.run.started_from is not None:
                kept = f"{night.run.started_from.token_rows_kept:,} of {night.run.started_from.token_rows:,}"
        print(f"| {number + 1} | {text.stat().st_size // 1000:,} | {' | '.join(cells)} | {kept} |", flush=True)
    print("\nCPU seconds of training: " + ", ".join(f"{start} {seconds:.0f}" for start, seconds in totals.items()))


def read_paragraphs(path: Path, size: int) -> list[str]:
    """Return paragraphs of the text in random order, `size` bytes in total."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    starts = range(0, len(lines), PARAGRAPH_LINES)
    paragraphs = ["\n".join(lines[start : start + PARAGRAPH_LINES]) + "\n\n" for start in starts]
    random.Random(0).shuffle(paragraphs)
    taken, total = [], 0
    for paragraph in paragraphs:
        total += len(paragraph.encode())
        if total > size:
            break
        taken.append(paragraph)
    return taken


def run_night(home: Home, config: PipelineConfig) -> Night:
    dataset = prepare_dataset(home, config)
    before = time.process_time()
    run = run_training(home, config, dataset, untracked, start=choose_start(home, config, dataset))
    seconds = time.process_time() - before
    evaluation = evaluate_run(home, dataset, run, config.evaluation)
    samples = generate_samples(home, dataset, run, config.generation)
    registered = register_model(home, Candidate(config, dataset, run, evaluation, samples))
    return Night(seconds, run, evaluation.scores["test"].bits_per_byte, registered)


def decision(registered: RegisteredVersion) -> str:
    """Return the decision about a version as text, such as 'champion, 214 documents'."""
    evidence = registered.evidence
    if evidence is None:
        return f"{registered.alias} ({registered.reason[:60]})"
    why = "" if registered.alias == "champion" else f" ({registered.reason.partition(':')[0]})"
    return f"{registered.alias}{why}, {evidence.difference:+.4f} on {evidence.documents}"


if __name__ == "__main__":
    main()
