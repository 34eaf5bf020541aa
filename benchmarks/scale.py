"""How each stage grows with the corpus: seconds, bytes on disk, peak memory.

python benchmarks/scale.py FOLDER [--gigabytes 0.1 1 10] [--processes 1 2] [--stages corpus tokenizer …]

FOLDER takes the generated texts and a home for each size: about three times the text. A text that is there is used
again. Each stage runs in a fresh process; memory is the peak over it and the processes below it. `warm` is all stages
before training once more, when everything is there. Training and evaluation do not grow with the corpus: training
reads a fixed number of tokens, and the held-out splits are about 1 MB each.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from prepare import row, table
from process_memory import measured
from untracked import untracked

from rnnlm.config import EvaluationConfig, PipelineConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.home import Home
from rnnlm.presets import build_config
from rnnlm.sequences.dataset_report import describe_dataset
from rnnlm.sequences.dataset_writer import prepare_dataset
from rnnlm.tokenizers.tokenizer_training import train_tokenizer

STAGES = ("corpus", "tokenizer", "sequences", "description", "training", "evaluation", "warm")
HELD_OUT_BYTES, TRAINED_TOKENS = 1_000_000, 50_000
WORDS, SUCCESSORS, FOLLOWED = 100_000, 16, 0.6  # different words; likely next words of each, and how often one is next
SENTENCES, LONGEST = 20_000, 40  # drawn together


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # a stage, in a fresh process
    options = parser.parse_args()
    if options.worker:
        run_stage(options.worker, options.folder, options.gigabytes[0], options.processes[0])
        return
    table(["text, GB", "processes", "stage", "seconds", "MB of text/s", "new on disk, MB", "peak, MiB"])
    for gigabytes in options.gigabytes:
        write_text(text_of(options.folder, gigabytes), int(gigabytes * 1e9))
        for processes in options.processes:
            shutil.rmtree(home_of(options.folder, gigabytes), ignore_errors=True)
            for stage in options.stages:
                measure(stage, options.folder, gigabytes, processes)


def measure(stage: str, folder: Path, gigabytes: float, processes: int) -> None:
    """Run a stage in a fresh process and print its row."""
    home = home_of(folder, gigabytes)
    before = bytes_below(home)
    command = [sys.executable, str(Path(__file__).resolve()), str(folder), "--worker", stage]
    command += ["--gigabytes", str(gigabytes), "--processes", str(processes)]
    peak, seconds, _ = measured(command)
    new = (bytes_below(home) - before) / 1e6
    row(gigabytes, processes, stage, f"{seconds:.1f}", f"{gigabytes * 1e3 / seconds:.1f}", f"{new:.0f}", f"{peak:.0f}")


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def text_of(folder: Path, gigabytes: float) -> Path:
    return folder / f"{gigabytes:g}-gb.txt"


def home_of(folder: Path, gigabytes: float) -> Path:
    return folder / f"{gigabytes:g}-gb-home"


def run_stage(stage: str, folder: Path, gigabytes: float, processes: int) -> None:
    """A stage with all before it, which are skipped if they have run."""
    home = Home(home_of(folder, gigabytes))
    config = configuration(text_of(folder, gigabytes), processes)
    corpus = obtain_corpus(home, config.corpus)
    if stage == "corpus":
        return
    train_tokenizer(home, corpus, config.tokenizer)
    if stage == "tokenizer":
        return
    dataset = prepare_dataset(home, config)
    if stage == "sequences":
        return
    describe_dataset(home, dataset)
    if stage in ("description", "warm"):
        return
    # torch is imported where it is needed alone: it would count as memory of the stages above.
    from rnnlm.evaluation.perplexity import evaluate_run
    from rnnlm.training.training_run import run_training

    run = run_training(home, config, dataset, untracked)
    if stage == "evaluation":
        evaluate_run(home, dataset, run, EvaluationConfig())


def configuration(text: Path, processes: int) -> PipelineConfig:
    held_out = min(0.05, HELD_OUT_BYTES / text.stat().st_size)
    settings: dict[str, Any] = {
        "corpus.valid_share": held_out,
        "corpus.test_share": held_out,
        "tokenizer.kind": "word",
        "sequences.processes": processes,
        "training.maximum_tokens": TRAINED_TOKENS,
        "training.precision": "float32",
    }
    return build_config("smoke", [f"{path}={value}" for path, value in settings.items()], str(text))


def write_text(path: Path, size: int) -> None:
    """Write a text of about `size` bytes, always the same."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    written = 0
    with partial.open("wb") as stream:
        for block in blocks():
            written += stream.write(block)
            if written >= size:
                break
    partial.replace(path)


def blocks() -> Iterator[bytes]:
    """Text without end: Zipf's law over the words, and a Markov chain, so that a model has something to learn.

    After a word comes one of its SUCCESSORS with the probability FOLLOWED, else any word by its frequency.
    """
    draw = np.random.default_rng(0)
    words = np.array([spelling(rank) for rank in range(WORDS)], dtype=object)
    cumulative = np.cumsum(1.0 / np.arange(1, WORDS + 1))
    cumulative /= cumulative[-1]

    def by_frequency(*shape: int) -> np.ndarray:
        return np.searchsorted(cumulative, draw.random(shape)).astype(np.int32)

    successors = by_frequency(WORDS, SUCCESSORS)
    while True:
        text = by_frequency(LONGEST, SENTENCES)  # a column is a sentence
        follows = draw.random(text.shape) < FOLLOWED
        chosen = draw.integers(0, SUCCESSORS, text.shape)
        for place in range(1, LONGEST):
            following = successors[text[place - 1], chosen[place]]
            text[place] = np.where(follows[place], following, text[place])
        lengths = draw.integers(4, 41, SENTENCES)
        ends_paragraph = draw.random(SENTENCES) < 0.2
        lines = [
            " ".join(words[text[:length, number]]) + (" .\n\n" if last else " .\n")
            for number, (length, last) in enumerate(zip(lengths.tolist(), ends_paragraph.tolist(), strict=True))
        ]
        yield "".join(lines).encode()


def spelling(rank: int) -> str:
    """A word for a rank: frequent words are short, and no two are equal."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    letters, rest = [], rank
    while True:
        rest, syllable = divmod(rest, len(consonants) * len(vowels))
        letters.append(consonants[syllable // len(vowels)] + vowels[syllable % len(vowels)])
        if rest == 0:
            return "".join(letters)
        rest -= 1


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
