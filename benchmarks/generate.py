"""Measure how long rnnlm's generation loop, its matrix products alone, and transformers' generate() take.

    .venv/bin/python benchmarks/generate.py
    .venv/bin/python benchmarks/generate.py --model FOLDER

The three are measured in turn, in one thread. With --model, the network in a model's folder (RUN/model) is measured
alone and mixed with its n-gram model, and the sizes of network and n-gram model are shown. Seconds are the CPU time of
the thread, so other programs affect them only through the caches.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch

from rnnlm.config import ModelConfig
from rnnlm.extensions.exports.hugging_face import RnnlmForCausalLM
from rnnlm.generation.inference_weights import InferenceWeights
from rnnlm.generation.sampling import Sampling, continue_batch, continue_ids
from rnnlm.models.language_model import LanguageModel
from rnnlm.models.model_factory import build_model, load_model

LENGTHS = (100, 1_000, 10_000)  # The numbers of tokens per generated text.
ROWS = (1, 8, 32)  # The numbers of texts that are generated in one batch.
NEVER = -1  # An id that no token has. As the id of <eos>, it prevents a text from ending before its full length.
DEFAULTS = {"temperature": 0.8, "top_p": 0.95}  # The default sampling options of `rnnlm generate`.


def products_alone(model: RnnlmForCausalLM) -> Callable[[int], object]:
    """Return a loop that only computes x W, h U and the product of h and the output matrix for each token."""
    network = model.language_model
    weights = [(cell.W.detach(), cell.U.detach()) for cell in network.stack.cells]
    # The weights are contiguous, as in rnnlm's loop, because this makes the products faster.
    head = network.head.weight.detach().t().contiguous()
    inputs = [torch.randn(1, len(W)) for W, _ in weights]
    hidden = torch.randn(1, len(head))
    new, logits = torch.empty_like(hidden), torch.empty(1, head.shape[1])

    @torch.inference_mode()
    def run(tokens: int) -> None:
        for _ in range(tokens):
            for x, (W, U) in zip(inputs, weights, strict=True):
                torch.mm(x, W, out=new)
                torch.mm(hidden, U, out=new)
            torch.mm(hidden, head, out=logits)

    return run


def our_loop(model: RnnlmForCausalLM) -> Callable[[int], object]:
    """Return rnnlm's generation loop. The loop's weights are prepared here, outside the measured time."""
    weights = InferenceWeights(model.language_model)

    def run(tokens: int) -> None:
        sampling = Sampling(maximum_tokens=tokens, temperature=0)
        assert len(continue_ids(weights, [2], sampling, NEVER)) == tokens

    return run


def hugging_face(model: RnnlmForCausalLM, rows: int = 1, **settings: object) -> Callable[[int], object]:
    def run(tokens: int) -> None:
        ids = torch.full((rows, 1), 2)
        mask = torch.ones_like(ids)
        settings_ = {"do_sample": False, "eos_token_id": None} | settings
        found = model.generate(ids, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, **settings_)
        assert found.shape == (rows, tokens + 1)

    return run


def our_batch(model: LanguageModel, rows: int, **settings: float) -> Callable[[int], object]:
    weights = InferenceWeights(model)

    def run(tokens: int) -> None:
        samplings = [Sampling(tokens, seed=row, **settings) for row in range(rows)]  # type: ignore[arg-type]
        found = continue_batch(weights, [[2]] * rows, samplings, NEVER)
        assert sum(map(len, found)) == rows * tokens

    return run


def seconds_in_turn(runs: dict[str, Callable[[int], object]], tokens: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU times of each function in seconds, measured `rounds` times.

    The functions take turns, so that other load on the machine affects all of them alike.
    """
    for run in runs.values():
        run(min(tokens, 20))  # The first call initializes caches, so it is not timed.
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begun = time.thread_time()
            run(tokens)
            seconds[name].append(time.thread_time() - begun)
    return seconds


def microseconds_a_token(
    model: RnnlmForCausalLM, lengths: Sequence[int], rounds: int
) -> dict[int, tuple[float, float]]:
    """Return the median times per token of rnnlm's loop and of its part outside the matrix products, by length of text.

    The lengths are measured in turn.
    """
    found: dict[int, tuple[list[float], list[float]]] = {tokens: ([], []) for tokens in lengths}
    for _ in range(rounds):
        for tokens, (ours, above) in found.items():
            runs = {"products": products_alone(model), "ours": our_loop(model)}
            # Short texts are measured in more rounds, because other load on the machine affects them more.
            seconds = seconds_in_turn(runs, tokens, max(1, 2_000 // tokens))
            ours += seconds["ours"]
            above += [a - b for a, b in zip(seconds["ours"], seconds["products"], strict=True)]
    return {
        tokens: (1e6 * median(ours) / tokens, 1e6 * median(above) / tokens) for tokens, (ours, above) in found.items()
    }


def print_lengths(model: RnnlmForCausalLM, rounds: int) -> None:
    print("\n| tokens | products alone, µs a token | ours | above the products | transformers' generate() |")
    print("|---|---|---|---|---|")
    for tokens in LENGTHS:
        runs = {"products": products_alone(model), "ours": our_loop(model), "theirs": hugging_face(model)}
        seconds = seconds_in_turn(runs, tokens, rounds)
        seconds["above"] = [a - b for a, b in zip(seconds["ours"], seconds["products"], strict=True)]
        products, ours, above, theirs = (
            1e6 * median(seconds[name]) / tokens for name in ("products", "ours", "above", "theirs")
        )
        print(f"| {tokens:,} | {products:.0f} | {ours:.0f} | {above:.0f} | {theirs:.0f} |", flush=True)


def print_batches(model: RnnlmForCausalLM, rounds: int, tokens: int = 100) -> None:
    print("\n| texts at once | greedy, tokens/s | generate() | temperature 0.8, top-p 0.95 | generate() |")
    print("|---|---|---|---|---|")
    for rows in ROWS:
        runs = {
            "ours": our_batch(model.language_model, rows, temperature=0),
            "theirs": hugging_face(model, rows),
            "ours drawn": our_batch(model.language_model, rows, **DEFAULTS),
            "theirs drawn": hugging_face(model, rows, do_sample=True, top_k=0, **DEFAULTS),
        }
        seconds = seconds_in_turn(runs, tokens, rounds)
        speeds = " | ".join(f"{rows * tokens / median(taken):,.0f}" for taken in seconds.values())
        print(f"| {rows} | {speeds} |", flush=True)


def print_mixture(folder: Path, rounds: int, tokens: int = 100) -> None:
    """Print how long the mixture of network and n-gram model takes to generate text, and the sizes of both.

    The temperature is 0.8 and top-p is 0.95, as by default in `rnnlm generate`.
    """
    mixed, alone = load_model(folder), load_model(folder)
    alone.mixture = None
    sizes = {name: (folder / f"{name}.safetensors").stat().st_size / 1e6 for name in ("model", "counts")}
    files = {"network": sizes["model"], "mixed": sizes["model"] + sizes["counts"]}
    print("\n| | one text, µs a token | 32 texts, tokens/s | files, MB |\n|---|---|---|---|")
    models = {"network": alone, "mixed": mixed}
    runs = {f"{name} {rows}": our_batch(models[name], rows, **DEFAULTS) for name in models for rows in (1, 32)}
    seconds = seconds_in_turn(runs, tokens, rounds)
    for name, size in files.items():
        one, many = (median(seconds[f"{name} {rows}"]) / (rows * tokens) for rows in (1, 32))
        print(f"| {name} | {1e6 * one:.0f} | {1 / many:,.0f} | {size:.1f} |")


def model_of(hidden: int, vocabulary: int, layers: int = 1) -> RnnlmForCausalLM:
    config = ModelConfig(hidden_size=hidden, layers=layers, tie_embeddings=False, head_bias="zero")
    return RnnlmForCausalLM.from_language_model(build_model(config, vocabulary, seed=0)).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.model:
        print_mixture(options.model, options.rounds)
        return
    model = model_of(options.hidden, options.vocabulary, options.layers)
    print(f"hidden {options.hidden}, vocabulary {options.vocabulary:,}, layers {options.layers}, ", end="")
    print(f"one thread's CPU time, median of {options.rounds}")
    print_lengths(model, options.rounds)
    print_batches(model, options.rounds)


if __name__ == "__main__":
    main()
