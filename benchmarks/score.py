"""Bulk scoring beside calling the model one document at a time, and its memory over the size of the input.

    python benchmarks/score.py MODEL TEXT [--documents 2000] [--rounds 5]
    python benchmarks/score.py MODEL TEXT --memory 20000 200000

A document is a line; of a long file every n-th is taken. One at a time is what one writes first: encode, call the
model, log-softmax, pick. Ours is all of a scoring but loading the model: reading, scoring, the most surprising tokens,
shards, output. Both use the model of the folder MODEL with full softmax and as many threads as torch takes, and take
turns; tokens/s is the median over the rounds, the ratio the median of the rounds' ratios. Memory is the peak
proportional set size of a process that scores so many lines (repeated where there are fewer) and measures their drift.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from process_memory import measured

from rnnlm.config import ScoringConfig
from rnnlm.home import Home
from rnnlm.scoring.inputs import find_inputs
from rnnlm.scoring.opening import model_in
from rnnlm.scoring.outputs import write_output, write_shard
from rnnlm.scoring.reading import documents, in_shards
from rnnlm.scoring.scores import Scorer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model's folder: RUN/model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--documents", type=int, default=2_000)
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
    """`count` lines that hold a word, evenly spread."""
    lines = [line for line in lines if line.strip()]
    return lines[:: max(1, len(lines) // count)][:count]


def configured(text: Path, folder: Path) -> ScoringConfig:
    return ScoringConfig(input=str(text), output=str(folder / "scores.parquet"))


def print_speed(model: Path, lines: list[str], rounds: int, folder: Path) -> None:
    text = folder / "texts.txt"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = configured(text, folder)
    scorer = model_in(model, str(model)).load(config)
    ways = {
        "one document at a time": lambda: one_at_a_time(scorer, lines),
        "ours": lambda: ours(scorer, config, folder),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    totals: dict[str, tuple[int, float]] = {}
    for _ in range(rounds):
        for way, run in ways.items():
            start = time.perf_counter()
            totals[way] = run()
            seconds[way].append(time.perf_counter() - start)
    (tokens, nats), (our_tokens, our_nats) = totals.values()
    assert tokens == our_tokens and abs(nats - our_nats) < 1e-4 * abs(nats), totals
    size, hidden = scorer.model.head.weight.shape
    print(f"vocabulary {size:,}, hidden {hidden}, {len(lines):,} documents, {torch.get_num_threads()} threads\n")
    print("| | tokens | tokens/s | ratio |")
    print("|---|---|---|---|")
    first = seconds["one document at a time"]
    for way, taken in seconds.items():
        ratio = statistics.median(one / other for one, other in zip(first, taken, strict=True))
        print(f"| {way} | {tokens:,} | {tokens / statistics.median(taken):,.0f} | {ratio:.2f} |")


@torch.inference_mode()
def one_at_a_time(scorer: Scorer, lines: list[str]) -> tuple[int, float]:
    """Predicted tokens and their summed log-probability. A line is cut as the training text was."""
    context = scorer.cut.context_length if scorer.cut.mode == "sentence" else 1 << 30
    tokens, total = 0, 0.0
    for line in lines:
        row = [scorer.tokenizer.bos_id, *scorer.tokenizer.encode(line), scorer.tokenizer.eos_id]
        for first in range(0, len(row) - 1, context):
            ids = torch.tensor(row[first : first + context + 1])
            logits, _ = scorer.model(ids[None, :-1])
            total += float(logits[0].log_softmax(-1).gather(1, ids[1:, None]).sum())
            tokens += len(ids) - 1
    return tokens, total


def ours(scorer: Scorer, config: ScoringConfig, folder: Path) -> tuple[int, float]:
    shards, tokens, total = [], 0, 0.0
    for number, shard in enumerate(in_shards(documents(find_inputs(config), config), config)):
        table = scorer(shard)
        shards.append(folder / f"{number:08d}.parquet")
        write_shard(shards[-1], table)
        tokens += sum(table["tokens"].to_pylist())
        total += sum(table["log_probability"].to_pylist())
    write_output(Path(config.output), shards, {})
    return tokens, total


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
    from rnnlm.scoring.drift import measure_drift
    from rnnlm.scoring.running import score_texts

    config = configured(text, folder).model_copy(update={"model": str(model)})
    home = Home(folder / "home")
    measure_drift(home, config, score_texts(home, config))


if __name__ == "__main__":
    main()
