"""Measure the speed of bulk scoring against scoring one document at a time, and its memory for large inputs.

    python benchmarks/score.py MODEL TEXT [--documents 4096] [--rounds 5]
    python benchmarks/score.py MODEL TEXT --memory 20000 200000

A document is a line. From a long file, every n-th line is used. Scoring one document at a time is the obvious program:
encode, call the model, compute the log-softmax, select the tokens. rnnlm's row includes everything but loading the
model: reading, scoring, tokens with the highest loss, shards and output. It is measured with the network alone in both
precisions of the output layer for rare classes and, if the model has one, with its n-gram model. All rows use the model
in the folder MODEL with the full softmax and torch's number of threads, and take turns.

tokens/s are medians over the rounds, per second of wall-clock time and per CPU second, which other programs affect
less. A ratio is the median of the rounds' ratios. `off` is the largest difference between a document's bits per byte in
this row and when scored one document at a time. It is due to rounding or, for the mixture, to the n-gram model.
--memory shows the peak proportional set size of a process that scores each given number of lines (with repetitions if
TEXT has fewer) and measures their drift.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from process_memory import measured

from rnnlm.extensions.scoring.document_reader import in_shards, read_documents
from rnnlm.extensions.scoring.document_scores import Scorer
from rnnlm.extensions.scoring.input_files import find_inputs
from rnnlm.extensions.scoring.score_output import write_output, write_shard
from rnnlm.extensions.scoring.scoring_config import ScoringConfig
from rnnlm.extensions.scoring.scoring_model import model_in
from rnnlm.storage.home import Home

# An array of shape (documents, 2). Its columns are each document's number of predicted tokens and total
# log-probability.
Scores = np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model's folder: RUN/model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--documents", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, nargs="+", metavar="DOCUMENTS")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.child:
            score_whole(options.model, options.text, Path(folder))
        elif options.memory:
            print_memory(options.model, options.text, options.memory, Path(folder))
        else:
            lines = spread(options.text.read_text(encoding="utf-8").splitlines(), options.documents)
            print_speed(options.model, lines, options.rounds, Path(folder))


def spread(lines: list[str], count: int) -> list[str]:
    """Return `count` evenly spaced lines that contain a word."""
    lines = [line for line in lines if line.strip()]
    return lines[:: max(1, len(lines) // count)][:count]


def configured(text: Path, folder: Path) -> ScoringConfig:
    return ScoringConfig(input=str(text), output=str(folder / "scores.parquet"))


def print_speed(model: Path, lines: list[str], rounds: int, folder: Path) -> None:
    text = folder / "texts.txt"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = configured(text, folder)
    scorer = model_in(model, str(model)).load(config)
    mixed = model_in(model, str(model)).load(config)
    scorer.model.mixture = None
    ways: dict[str, Callable[[], Scores]] = {"one document at a time": lambda: one_at_a_time(scorer, lines)}
    for precision in ("float32", "bfloat16"):
        settings = config.model_copy(update={"precision": precision})
        ours = Scorer(scorer.model, scorer.tokenizer, scorer.cut, settings)
        ways[f"ours, rare classes in {precision}"] = partial(in_bulk, ours, settings, folder)
    if mixed.model.mixture is not None:
        ways["ours, mixed with counts"] = partial(in_bulk, mixed, config, folder)
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    scores: dict[str, Scores] = {}
    for _ in range(rounds):
        for way, run in ways.items():
            start = time.perf_counter(), time.process_time()
            scores[way] = run()
            taken[way].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    print_table(lines, scorer, taken, scores)


def print_table(
    lines: list[str], scorer: Scorer, taken: dict[str, list[tuple[float, float]]], scores: dict[str, Scores]
) -> None:
    size, hidden = scorer.model.head.weight.shape
    alone = next(iter(scores.values()))
    tokens = int(alone[:, 0].sum())
    byte_counts = np.array([len(line.encode()) + 1 for line in lines])
    print(f"vocabulary {size:,}, hidden {hidden}, {len(lines):,} documents, {tokens:,} tokens, ", end="")
    print(f"{torch.get_num_threads()} threads\n")
    print("| | tokens/s, clock | ratio | tokens/s, processor | ratio | off, bits/byte |")
    print("|---|---|---|---|---|---|")
    first, *_ = taken.values()
    for way, seconds in taken.items():
        assert (scores[way][:, 0] == alone[:, 0]).all(), way
        off = np.abs(scores[way][:, 1] - alone[:, 1]) / math.log(2) / byte_counts
        cells = []
        for kind in (0, 1):
            rate = tokens / statistics.median(each[kind] for each in seconds)
            ratio = statistics.median(one[kind] / each[kind] for one, each in zip(first, seconds, strict=True))
            cells += [f"{rate:,.0f}", f"{ratio:.2f}"]
        print(f"| {way} | {' | '.join(cells)} | {off.max():.1e} |")


@torch.inference_mode()
def one_at_a_time(scorer: Scorer, lines: list[str]) -> Scores:
    """Score each line separately. Each line is split into rows in the same way as the training text."""
    context = scorer.cut.context_length if scorer.cut.mode == "sentence" else 1 << 30
    found = np.zeros((len(lines), 2))
    for number, line in enumerate(lines):
        row = [scorer.tokenizer.bos_id, *scorer.tokenizer.encode(line), scorer.tokenizer.eos_id]
        for first in range(0, len(row) - 1, context):
            ids = torch.tensor(row[first : first + context + 1])
            logits, _ = scorer.model(ids[None, :-1])
            found[number] += len(ids) - 1, float(logits[0].log_softmax(-1).gather(1, ids[1:, None]).sum())
    return found


def in_bulk(scorer: Scorer, config: ScoringConfig, folder: Path) -> Scores:
    shards, found = [], []
    for number, shard in enumerate(in_shards(read_documents(find_inputs(config).files, config), config)):
        table = scorer(shard)
        shards.append(folder / f"{number:08d}.parquet")
        write_shard(shards[-1], table)
        found.append(np.stack([table["tokens"].to_numpy(), table["log_probability"].to_numpy()], axis=1))
    write_output(Path(config.output), shards, {})
    return np.concatenate(found)


def print_memory(model: Path, text: Path, counts: list[int], folder: Path) -> None:
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    print("| documents | text, MiB | peak, MiB | seconds |")
    print("|---|---|---|---|")
    for count in counts:
        repeated = folder / f"{count}.txt"
        with repeated.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{lines[number % len(lines)]}\n" for number in range(count))
        command = [sys.executable, __file__, str(model), str(repeated), "--child"]
        peak, seconds, _ = measured(command)
        print(f"| {count:,} | {repeated.stat().st_size / 2**20:,.1f} | {peak:,.0f} | {seconds:,.0f} |")


def score_whole(model: Path, text: Path, folder: Path) -> None:
    from rnnlm.extensions.scoring.bulk_scoring import score_texts
    from rnnlm.extensions.scoring.drift import measure_drift

    config = configured(text, folder).model_copy(update={"model": str(model)})
    home = Home(folder / "home")
    measure_drift(home, config, score_texts(home, config))


if __name__ == "__main__":
    main()
