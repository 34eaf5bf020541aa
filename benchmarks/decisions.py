"""Simulate nightly runs on growing texts of many layouts, and count the runs that end in a decision.

    python benchmarks/decisions.py ../shared/data/brown.txt [--nights 10] [--only log dialogue] [--equal 200]

TEXT has one sentence per line. Each layout is written from TEXT, generated (a log), or taken from this Python's library
(code). Each layout has a separate rnnlm home and registry, and its text grows from run to run. The models are n-gram
models, so that a nightly run takes seconds. All other stages are as usual: dataset, evaluation, registration and
comparison with the champion. Afterwards, the losses of the last run's two models are adjusted until both models are
equally good. Held-out text is then drawn repeatedly, to measure how often one model is nevertheless called better than
the other. This may happen in at most 5 % of the cases.
"""

import argparse
import json
import logging
import random
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from rnnlm.config import PipelineConfig, RegistryConfig
from rnnlm.config.presets import build_config
from rnnlm.evaluation.paired.bootstrap import evidence_from, units_of_lines
from rnnlm.pipeline import run_pipeline
from rnnlm.storage.home import Home
from rnnlm.storage.result_records import RegisteredVersion
from rnnlm.storage.sql_statements import statement

Sentences = list[str]
RUN = 5  # The number of consecutive lines that false_alarms() draws together.
COUNTS = ["model.kind=kneser-ney", "generation.prompts=[]", "evaluation.splits=[valid,test]", "training.device=cpu"]
SPEAKERS = ("ANNA", "BORIS", "CLARA", "DAVID")
EVENTS = ("INFO request {} took {} ms", "WARN queue {} holds {} jobs", "INFO user {} logged in from port {}",
          "ERROR job {} failed with code {}", "DEBUG cache {} has {} entries")  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """The layout of a text, and the text's number of sentences in the first and in the last nightly run."""

    write: Callable[[Path, Sentences], None]
    first: int
    last: int
    settings: tuple[str, ...] = ()


def lines(path: Path, sentences: Sentences) -> None:
    path.with_suffix(".txt").write_text("".join(sentences))


def newest_first(path: Path, sentences: Sentences) -> None:
    lines(path, sentences[::-1])


def scattered(path: Path, sentences: Sentences) -> None:
    """Write the sentences in an order that scatters the new lines of a longer text among its old lines."""
    order = sorted(range(len(sentences)), key=lambda number: random.Random(number).random())
    lines(path, [sentences[number] for number in order])


def rolling(path: Path, sentences: Sentences) -> None:
    """Write only the newest half of all lines, as in a log that is rotated."""
    lines(path, sentences[len(sentences) // 2 :])


def paragraphs(path: Path, sentences: Sentences) -> None:
    lines(path, ["".join(sentences[first : first + 5]) + "\n" for first in range(0, len(sentences), 5)])


def wrapped(sentences: Sentences) -> list[str]:
    words = " ".join(sentence.strip() for sentence in sentences).split()
    return [f"{' '.join(words[first : first + 11])}\n" for first in range(0, len(words), 11)]


def novel(path: Path, sentences: Sentences) -> None:
    """Write wrapped lines with a blank line after each paragraph."""
    parts = (wrapped(sentences[first : first + 7]) for first in range(0, len(sentences), 7))
    lines(path, ["".join(part) + "\n" for part in parts])


def novel_without_paragraphs(path: Path, sentences: Sentences) -> None:
    lines(path, wrapped(sentences))


def five_files(path: Path, sentences: Sentences) -> None:
    path.mkdir(exist_ok=True)
    for number in range(5):
        part = sentences[number * len(sentences) // 5 : (number + 1) * len(sentences) // 5]
        (path / f"part-{number}.txt").write_text("".join(part))


def many_files(path: Path, sentences: Sentences) -> None:
    """Divide the sentences among files of 20 sentences each. The last text has more than 100 files."""
    path.mkdir(exist_ok=True)
    for first in range(0, len(sentences), 20):
        (path / f"{first:06d}.txt").write_text("".join(sentences[first : first + 20]))


def records(path: Path, sentences: Sentences) -> None:
    path.with_suffix(".jsonl").write_text("".join(json.dumps({"text": one.strip()}) + "\n" for one in sentences))


def dialogue(path: Path, sentences: Sentences) -> None:
    lines(path, [f"{SPEAKERS[number * 7 % 4]}: {one}" for number, one in enumerate(sentences)])


def log(path: Path, sentences: Sentences) -> None:
    draw = random.Random(0)
    stamp = (f"2026-01-{1 + n // 5000:02d} {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}" for n in range(10**7))
    made = (draw.choice(EVENTS).format(draw.randrange(5000), draw.randrange(300)) for _ in sentences)
    lines(path, [f"{next(stamp)} {event}\n" for event in made])


def code(path: Path, sentences: Sentences) -> None:
    """Write as many lines of Python's standard library as there are sentences."""
    found: Sentences = []
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        found += file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if len(found) >= len(sentences):
            break
    lines(path, found[: len(sentences)])


STREAM, CHARACTERS, WORDS = "sequences.mode=stream", "tokenizer.kind=char", "tokenizer.kind=word"
LAYOUTS = {
    "200 lines": Layout(lines, 200, 420),
    "a record a line": Layout(lines, 4_000, 7_500, (WORDS,)),
    "newest first": Layout(newest_first, 2_000, 6_000),
    "scattered insertions": Layout(scattered, 3_000, 6_000, (WORDS,)),
    "rolling window": Layout(rolling, 4_000, 9_000),
    "paragraphs": Layout(paragraphs, 2_000, 5_000, (STREAM,)),
    "one novel": Layout(novel, 1_500, 4_500, (STREAM, CHARACTERS)),
    "novel, no paragraphs": Layout(novel_without_paragraphs, 1_500, 4_500, (STREAM,)),
    "five long files": Layout(five_files, 2_000, 6_000, (WORDS,)),
    "40 to 160 files": Layout(many_files, 800, 3_200),
    "jsonl rows": Layout(records, 300, 1_200),
    "dialogue": Layout(dialogue, 2_000, 5_000, (CHARACTERS,)),
    "code": Layout(code, 3_000, 12_000, (STREAM,)),
    "log": Layout(log, 3_000, 12_000),
    "log without digits": Layout(log, 3_000, 12_000, ("corpus.digits=#",)),
    "5 MB of lines": Layout(lines, 30_000, 46_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--nights", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=list(LAYOUTS), default=list(LAYOUTS))
    parser.add_argument("--equal", type=int, default=200, help="pairs of equally good models for each text")
    parser.add_argument("--set", nargs="+", default=[], metavar="SECTION.FIELD=VALUE")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    sentences = options.text.read_text(encoding="utf-8").splitlines(keepends=True)
    heads = ("text", "kB", "decisions", "champions", "units", "one night's bound", "equal models called better", "s")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for name in options.only:
        with tempfile.TemporaryDirectory(prefix="rnnlm-decisions-") as folder:
            print(f"| {name} | {' | '.join(cells_of(LAYOUTS[name], Path(folder), sentences, options))} |", flush=True)


def cells_of(layout: Layout, folder: Path, sentences: Sentences, options: argparse.Namespace) -> list[str]:
    began, home = time.perf_counter(), Home(folder / "home")
    found: list[RegisteredVersion] = []
    sizes: list[int] = []
    config = PipelineConfig()
    for night in range(options.nights):
        count = round(layout.first + (layout.last - layout.first) * night / max(1, options.nights - 1))
        source = folder / "growing"
        layout.write(source, sentences[:count])
        [source] = folder.glob("growing*")
        config = build_config("default", [*COUNTS, *layout.settings, *options.set], str(source))
        found.append(run_pipeline(home, config).registered)
        sizes.append(sum(path.stat().st_size for path in (source.iterdir() if source.is_dir() else [source])))
    nights = found[1:]
    decided = [one for one in nights if one.evidence and one.evidence.units >= config.registry.minimum_units]
    for one in nights:
        if one not in decided:
            logging.error("version %d: %s", one.version, one.reason)
    evidence = [one.evidence for one in decided if one.evidence]
    units = [one.units for one in evidence]
    bounds = [100 * one.relative(one.upper - one.difference) for one in evidence]
    return [
        f"{sizes[0] / 1e3:,.0f} to {sizes[-1] / 1e3:,.0f}",
        f"{len(decided)} of {len(nights)}",
        f"{sum(one.alias == 'champion' for one in nights)}",
        f"{min(units, default=0):,} to {max(units, default=0):,}",
        f"±{np.median(bounds):.1f} %" if bounds else "",
        false_alarms(newest(home), options.equal) if options.equal and decided else "",
        f"{time.perf_counter() - began:.0f}",
    ]


def newest(home: Home) -> Path:
    """Return the file that contains the token losses from the last comparison with the champion."""
    return max(home.artifacts.rglob("losses.parquet"), key=lambda path: path.stat().st_mtime)


def false_alarms(losses: Path, pairs: int) -> str:
    """Return the fraction of cases in which one of two equally good models is called better than the other.

    The losses of the last run's two models are made equal on average, by adding the same number of nats per byte to
    each line. Then the same number of lines is drawn with replacement, in runs of RUN neighbours, so that the
    correlation between neighbouring lines is kept.
    """
    with duckdb.connect() as connection:
        parameters = {"losses": str(losses), "only_lines": None}
        found = connection.execute(statement("promotion/pair_losses"), parameters).fetchnumpy()
    excess = found["excess_nats"] - found["byte_count"] * (found["excess_nats"].sum() / found["byte_count"].sum())
    draw, count, better = np.random.default_rng(0), len(excess), 0
    for _ in range(pairs):
        starts = draw.integers(0, count, -(-count // RUN))
        drawn = ((starts[:, None] + np.arange(RUN)) % count).ravel()[:count]
        documents = np.cumsum(np.diff(found["document_id"][drawn], prepend=-1) != 0)
        units = units_of_lines(documents, excess[drawn], found["byte_count"][drawn])
        byte_count = int(units.byte_counts.sum())
        totals: dict[str, float] = {"documents": int(documents[-1]), "lines": count, "byte_count": byte_count}
        totals |= {"candidate_nats_per_byte": 1.0, "champion_nats_per_byte": 1.0}
        totals["difference"] = units.excess_nats.sum() / byte_count
        better += evidence_from(totals, units, RegistryConfig(resamples=500)).upper < 0
    return f"{better / pairs:.1%} of {pairs}"


if __name__ == "__main__":
    main()
