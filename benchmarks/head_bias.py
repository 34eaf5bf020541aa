"""Compare variants of training to find out why the sampled loss is slow if the output bias starts at zero.

    python benchmarks/head_bias.py FILE [--vocabulary 16000] [--tokens 250000] [--variants NAME]

FILE has a sentence per line, and every twentieth sentence is used for validation. All variants train the model of
benchmarks/textbook.py (two layers, 128 units, AdamW at 0.001, batches of 128 sentences of at most 30 tokens) on the
same batches. The table shows the perplexity and the total probability of rare classes. A class is rare if its inclusion
probability in a sample is below 1. The script needs the packages that time_to_perplexity.py needs.
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

# Find rnnlm in this checkout, even if it is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from time_to_perplexity import SPECIAL, feed, score, unigram

from rnnlm.config import ModelConfig, OptimizerConfig
from rnnlm.losses.exact import ChunkedCrossEntropy
from rnnlm.losses.loss import Loss
from rnnlm.losses.sampled_softmax import SampledCrossEntropy
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model
from rnnlm.sequences.batches import ordered_batches
from rnnlm.sequences.segmentation import TokenRows, rows_from_lists
from rnnlm.training.optimizer_step import BatchLoss, Updater, take_step
from rnnlm.training.optimizers import make_optimizer
from rnnlm.training.seeding import step_generator

CONTEXT_LENGTH, BATCH_SIZE, LEARNING_RATE, SMALLEST_SAMPLE = 30, 128, 1e-3, 1_024
EVALUATIONS = 5


@dataclass(frozen=True)
class Variant:
    name: str
    classes: int | None  # The number of sampled classes, or None for the exact loss.
    bias: str
    # If True, the optimizer updates only the sampled classes' rows, as rnnlm does on a CPU.
    by_rows: bool = True
    # If True, gradients are exact, but the output layer uses only the gradients of the targets and of 1,024 sampled
    # classes.
    masked: bool = False


VARIANTS = (
    Variant("exact, zero bias", None, "zero"),
    Variant("exact, zero bias, only sampled rows of the head updated", None, "zero", masked=True),
    Variant("sampled 1,024, zero bias", 1_024, "zero"),
    Variant("sampled 1,024, zero bias, all rows updated", 1_024, "zero", by_rows=False),
    Variant("sampled 4,096, zero bias", 4_096, "zero"),
    Variant("sampled 1,024, unigram bias", 1_024, "unigram"),
    Variant("exact, unigram bias", None, "unigram"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vocabulary", type=int, default=16_000)
    parser.add_argument("--tokens", type=int, default=250_000)
    parser.add_argument("--variants", default="", help="only those whose name begins so")
    options = parser.parse_args()
    train, valid = read(options.file, options.vocabulary)
    shares = unigram(train, options.vocabulary)
    rare = SampledCrossEntropy(shares, SMALLEST_SAMPLE).inclusion < 1
    rare_share = float(rare[targets(valid)].mean())
    print(f"{options.vocabulary:,} classes, {int(rare.sum()):,} rare ones: {rare_share:.1%} of the validation tokens\n")
    print("| variant | tokens | perplexity | probability of the rare | bias of the rare | seconds |")
    print("|---|---|---|---|---|---|")
    for variant in (one for one in VARIANTS if one.name.startswith(options.variants)):
        compete(variant, train, valid, shares, rare, options.tokens)


def compete(
    variant: Variant, train: TokenRows, valid: TokenRows, shares: np.ndarray, rare: np.ndarray, tokens: int
) -> None:
    """Train a variant, and print its perplexity and training time in seconds after each fifth of the tokens.

    The time does not include evaluation.
    """
    config = ModelConfig(
        hidden_size=128,
        layers=2,
        embedding_initialization="xavier",
        recurrent_initialization="xavier",
        tie_embeddings=False,
        head_bias=variant.bias,
    )
    model = build_model(config, len(shares), 0, np.log(np.maximum(shares, 1e-7)).astype(np.float32))
    sampled = variant.classes is not None
    loss: Loss = SampledCrossEntropy(shares, variant.classes) if variant.classes else ChunkedCrossEntropy()
    model.embedding.sparse = sampled and variant.by_rows
    optimizer = make_optimizer(model, OptimizerConfig(learning_rate=LEARNING_RATE))
    kept = torch.ones(len(shares), 1)
    if variant.masked:
        optimizer.by_rows = (model.head.weight,)
        model.head.weight.register_hook(lambda gradient: gradient * kept)
        model.head.bias.register_hook(lambda gradient: gradient * kept[:, 0])
    updater = Updater(BatchLoss(model, loss), optimizer, None)
    done, seconds, reports = 0, 0.0, 0
    for step, batch in enumerate(feed(train, BATCH_SIZE)):
        model.train()
        if variant.masked:
            kept.zero_()
            kept[SampledCrossEntropy(shares, SMALLEST_SAMPLE).draw(step_generator(0, step))] = 1.0
            kept[batch.target_ids.flatten()] = 1.0
        start = time.perf_counter()
        take_step(updater, batch, None, step_generator(0, step))
        seconds += time.perf_counter() - start
        done += batch.predicted_tokens
        if done >= tokens * (reports + 1) / EVALUATIONS:
            reports += 1
            found = score(model, valid)
            bias = float(model.head.bias.detach()[torch.from_numpy(rare)].mean())
            print(
                f"| {variant.name} | {done:,} | {found:,.0f} | {probability_of(model, valid, rare):.1%} "
                f"| {bias:.2f} | {seconds:.0f} |",
                flush=True,
            )
        if done >= tokens:
            return


@torch.no_grad()
def probability_of(model: LanguageModel, valid: TokenRows, classes: np.ndarray) -> float:
    """Return the total probability that the model gives to `classes`, averaged over the first validation batches."""
    model.eval()
    chosen, sums, count = torch.from_numpy(classes), 0.0, 0
    for batch in itertools.islice(ordered_batches(valid, BATCH_SIZE), 8):
        hidden, _ = model.hidden(batch.input_ids)
        rows = hidden[batch.target_ids.ne(0)]
        logits = (rows @ model.head.weight.T + model.head.bias).masked_fill(model.never_predicted, float("-inf"))
        sums += float(logits.softmax(dim=1)[:, chosen].sum())
        count += len(rows)
    return sums / count


def read(path: Path, vocabulary_size: int) -> tuple[TokenRows, TokenRows]:
    """Return the training and validation rows of a file.

    A row is `<bos>`, the words and `<eos>`, truncated after CONTEXT_LENGTH tokens.
    """
    sentences = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    parts = [s for i, s in enumerate(sentences) if i % 20], sentences[::20]
    counts = Counter(itertools.chain.from_iterable(parts[0]))
    names = [*SPECIAL, "<unk>", *(word for word, _ in counts.most_common(vocabulary_size - len(SPECIAL) - 1))]
    ids = {word: number for number, word in enumerate(names)}
    bos, eos, unknown = ids["<bos>"], ids["<eos>"], ids["<unk>"]
    train, valid = (
        rows_from_lists(
            [[bos, *(ids.get(word, unknown) for word in words), eos][: CONTEXT_LENGTH + 1] for words in part]
        )
        for part in parts
    )
    return train, valid


def targets(rows: TokenRows) -> np.ndarray:
    """Return all tokens except the first of each row, as an array of shape (predicted tokens,)."""
    inside = np.ones(len(rows.token_ids), bool)
    inside[rows.offsets[:-1]] = False
    return rows.token_ids[inside]


if __name__ == "__main__":
    main()
