"""Measure the time until a model reaches a perplexity, with rnnlm's fast loss and with the step of textbook.py.

    python benchmarks/time_to_perplexity.py FOLDER [--target 200] [--picture FILE.png]

FOLDER has train.txt and valid.txt. Both sides train the same model (hidden size 200) from the same weights on the same
batches, each with three learning rates that are constant after a warm-up. They take turns after every 100,000 tokens,
so that other load on the machine affects all of them. After each turn, the validation split is scored with the full
softmax. The scoring is excluded from the time. The script needs only torch, transformers, numpy and pydantic,
and matplotlib for --picture.
"""

import argparse
import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textbook import TextbookLanguageModel, TextbookTrainer
from train import SAMPLED_CLASSES

from rnnlm.config import ModelConfig
from rnnlm.losses.loss import token_nll
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.metrics import perplexity
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import Batch, ordered_batches, shuffled_batches
from rnnlm.sequences.segmentation import TokenRows, rows_from_lists
from rnnlm.training.optimizer_step import BatchLoss, Updater, take_step
from rnnlm.training.optimizers import LazyAdamW
from rnnlm.training.seeding import step_generator

HIDDEN, LAYERS, WARMUP_STEPS, TURN_TOKENS = 200, 1, 100, 100_000
SPECIAL = ("<pad>", "<eos>", "<bos>")
MODEL = ModelConfig(hidden_size=HIDDEN, layers=LAYERS, tie_embeddings=False, recurrent_initialization="orthogonal")


@dataclass
class Contender:
    """A model in training. Its curve has a point (tokens, seconds, validation perplexity) for each turn."""

    side: str
    learning_rate: float
    step: Callable[[Batch, int], object]
    # This function returns the trained weights under the names that LanguageModel uses.
    weights: Callable[[], dict[str, torch.Tensor]]
    feed: Iterator[Batch]
    tokens: int = 0
    seconds: float = 0.0
    steps: int = 0
    curve: list[tuple[int, float, float]] = field(default_factory=list)

    def take_turn(self) -> None:
        batches: list[Batch] = []
        while sum(batch.predicted_tokens for batch in batches) < TURN_TOKENS:
            batches.append(next(self.feed))
        start = time.perf_counter()
        for batch in batches:
            self.step(batch, self.steps)
            self.steps += 1
        self.seconds += time.perf_counter() - start
        self.tokens += sum(batch.predicted_tokens for batch in batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", type=float, default=200.0)
    parser.add_argument("--batch", type=int, default=32, help="sentences")
    parser.add_argument("--textbook-rates", type=float, nargs="*", default=[0.001, 0.002, 0.004])
    parser.add_argument("--fast-rates", type=float, nargs="*", default=[0.001, 0.002, 0.004])
    parser.add_argument("--maximum-tokens", type=float, default=4e6, help="of each contender")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()

    vocabulary = vocabulary_of(options.folder / "train.txt")
    train = read(options.folder / "train.txt", vocabulary)
    valid = read(options.folder / "valid.txt", vocabulary)
    contenders = [textbook(train, len(vocabulary), rate, options.batch) for rate in options.textbook_rates]
    contenders += [fast(train, len(vocabulary), rate, options.batch) for rate in options.fast_rates]
    race(contenders, valid, len(vocabulary), options.target, options.maximum_tokens)
    report(contenders, options.target)
    if options.picture:
        draw(contenders, options.target, options.picture)


def race(contenders: list[Contender], valid: TokenRows, size: int, target: float, maximum_tokens: float) -> None:
    judge = build_model(MODEL, size, seed=0)
    running = list(contenders)
    while running:
        for contender in list(running):
            contender.take_turn()
            judge.load_state_dict(contender.weights())
            perplexity = score(judge, valid)
            contender.curve.append((contender.tokens, contender.seconds, perplexity))
            print(
                f"{contender.side:9} rate {contender.learning_rate:<6} {contender.tokens:9,} tokens "
                f"{contender.seconds:7.1f} s  perplexity {perplexity:8.2f}",
                flush=True,
            )
            if perplexity <= target or contender.tokens >= maximum_tokens:
                running.remove(contender)


@torch.no_grad()
def score(model: LanguageModel, valid: TokenRows) -> float:
    """Return the model's perplexity on the validation rows with the full softmax."""
    model.eval()
    batches = ordered_batches(valid, 128)
    losses = (token_nll(model, model.hidden(batch.input_ids)[0], batch.target_ids) for batch in batches)
    total = sum(float(nll.double().sum()) for nll in losses)
    return perplexity(total / valid.predicted_count)


def textbook(train: TokenRows, size: int, rate: float, batch_size: int) -> Contender:
    ours = fresh_model(train, size)
    model = TextbookLanguageModel(size, HIDDEN, LAYERS)
    named = {name.replace("stack.", ""): value for name, value in ours.state_dict().items()}
    # The bias of excluded classes is finite here, because the model of textbook.py may predict every class.
    named["head.bias"] = named["head.bias"].masked_fill(ours.never_predicted, -30.0)
    model.load_state_dict(named)
    trainer = TextbookTrainer(model, rate)

    def step(batch: Batch, number: int) -> None:
        trainer.optimizer.param_groups[0]["lr"] = rate * warm(number)
        trainer.step(batch.input_ids, batch.target_ids)

    def weights() -> dict[str, torch.Tensor]:
        return {name.replace("cells.", "stack.cells."): value for name, value in model.state_dict().items()}

    return Contender("textbook", rate, step, weights, feed(train, batch_size))


def fast(train: TokenRows, size: int, rate: float, batch_size: int) -> Contender:
    model = fresh_model(train, size)
    model.embedding.sparse = True
    batch_loss = BatchLoss(model, SampledCrossEntropy(unigram(train, size), SAMPLED_CLASSES))
    updater = Updater(batch_loss, LazyAdamW(model.parameters(), lr=rate, fused=True), 1.0)

    def step(batch: Batch, number: int) -> None:
        updater.optimizer.param_groups[0]["lr"] = rate * warm(number)
        take_step(updater, batch, None, step_generator(0, number))

    return Contender("fast", rate, step, model.state_dict, feed(train, batch_size))


def warm(step: int) -> float:
    return min(1.0, (step + 1) / WARMUP_STEPS)


def fresh_model(train: TokenRows, size: int) -> LanguageModel:
    """Return a model with the initial weights that both sides use.

    The recurrent matrix U is orthogonal, and the output bias gives the unigram distribution.
    """
    return build_model(MODEL, size, 0, np.log(np.maximum(unigram(train, size), 1e-9)).astype(np.float32))


def unigram(train: TokenRows, size: int) -> np.ndarray:
    """Return the relative frequency of each class as a target, as an array of shape (V,)."""
    counts = np.bincount(train.token_ids, minlength=size).astype(np.float64)
    counts[[SPECIAL.index("<pad>"), SPECIAL.index("<bos>")]] = 0
    return counts / counts.sum()


def feed(train: TokenRows, batch_size: int) -> Iterator[Batch]:
    return itertools.chain.from_iterable(shuffled_batches(train, batch_size, 0, epoch) for epoch in itertools.count())


def vocabulary_of(path: Path) -> dict[str, int]:
    counts = Counter(path.read_text(encoding="utf-8").split())
    return {word: number for number, word in enumerate([*SPECIAL, *(word for word, _ in counts.most_common())])}


def read(path: Path, vocabulary: dict[str, int]) -> TokenRows:
    """Return rows of `<bos>`, the words and `<eos>`, one for each line."""
    bos, eos = vocabulary["<bos>"], vocabulary["<eos>"]
    lines = path.read_text(encoding="utf-8").splitlines()
    return rows_from_lists([[bos, *(vocabulary[word] for word in line.split()), eos] for line in lines])


def seconds_to(contender: Contender, target: float) -> float:
    return next((seconds for _, seconds, perplexity in contender.curve if perplexity <= target), math.inf)


def report(contenders: list[Contender], target: float) -> None:
    print(
        f"\n| step | learning rate | tokens/s | tokens to {target:g} | seconds to {target:g} |\n|---|---|---|---|---|"
    )
    for contender in contenders:
        tokens = next((f"{tokens:,}" for tokens, _, reached in contender.curve if reached <= target), "not reached")
        speed = contender.tokens / contender.seconds
        print(
            f"| {contender.side} | {contender.learning_rate} | {speed:,.0f} | {tokens} "
            f"| {seconds_to(contender, target):.1f} |"
        )
    best = {
        side: min(seconds_to(contender, target) for contender in contenders if contender.side == side)
        for side in dict.fromkeys(contender.side for contender in contenders)
    }
    if len(best) == 2:
        print(f"\nfast over textbook: {best['fast'] / best['textbook']:.3f} of the time")


def draw(contenders: list[Contender], target: float, picture: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    colours = {"textbook": "tab:gray", "fast": "tab:blue"}
    styles = itertools.cycle(["-", "--", ":"])
    for contender in contenders:
        _, seconds, perplexities = zip(*contender.curve, strict=True)
        label = f"{contender.side}, learning rate {contender.learning_rate}"
        axes.plot(seconds, perplexities, next(styles), color=colours[contender.side], label=label)
    axes.axhline(target, color="tab:red", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="seconds of training", ylabel="validation perplexity, full softmax")
    axes.set_title("Time to perplexity on the Penn Treebank, hidden 200")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0f}")
        axis.set_minor_formatter("{x:.0f}")
    axes.grid(which="both", alpha=0.2)
    axes.legend()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main()
