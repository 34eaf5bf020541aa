"""Measure the fraction of a run's CPU time that is spent on scoring, in validations and after the last step.

python benchmarks/scoring_share.py CORPUS PRESET [SECTION.FIELD=VALUE …]

The run uses one process without Prefect. Times are CPU seconds of the process, so that other load on the machine hardly
changes them.
"""

import functools
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from untracked import untracked

from rnnlm.config.presets import build_config
from rnnlm.corpora.download import obtain_corpus
from rnnlm.evaluation import perplexity
from rnnlm.extensions.scoring import reference_scores
from rnnlm.extensions.surprise import surprise_measurement
from rnnlm.sequences.dataset_writer import store_sequences
from rnnlm.storage.home import Home
from rnnlm.tokenizers.tokenizer_training import train_tokenizer
from rnnlm.training import train as training
from rnnlm.training.training_run import run_training

seconds: dict[str, float] = defaultdict(float)
running: list[str] = []


def timed(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to add its CPU seconds to the total `what`, without those of timed functions that it calls."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **settings: Any) -> Any:
        inside = bool(running) and running[-1] != "training"
        running.append(what)
        start = time.process_time()
        try:
            return function(*arguments, **settings)
        finally:
            running.pop()
            if not inside:
                seconds[what] += time.process_time() - start

    return wrapped


def main() -> None:
    corpus_source, preset, settings = sys.argv[1], sys.argv[2], sys.argv[3:]
    config = build_config(preset, settings, corpus_source)
    training.scale_temperature = timed("temperature", training.scale_temperature)  # type: ignore[assignment]
    training.nll_of_batches = timed("on the way", training.nll_of_batches)  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        corpus = obtain_corpus(home, config.corpus)
        tokenizer = train_tokenizer(home, corpus, config.tokenizer)
        dataset = store_sequences(home, corpus, tokenizer, config.sequences)
        run = timed("training", run_training)(home, config, dataset, untracked)
        timed("evaluation", perplexity.evaluate_run)(home, dataset, run, config.evaluation)
        timed("references", reference_scores.keep_references)(home, dataset, run)
        timed("surprise", surprise_measurement.surprise_of_run)(home, dataset, run, config.evaluation)
    steps = seconds["training"] - seconds["on the way"] - seconds["temperature"]
    after = sum(seconds[what] for what in ("temperature", "evaluation", "references", "surprise"))
    print("| part | CPU seconds | of the steps |\n|---|---|---|")
    rows = {"steps": steps, "validations on the way": seconds["on the way"], "after the last step": after}
    rows |= {f"- {what}": seconds[what] for what in ("temperature", "evaluation", "references", "surprise")}
    for what, spent in rows.items():
        print(f"| {what} | {spent:.1f} | {spent / steps:.1%} |")
    print(
        f"\nscoring is {(seconds['on the way'] + after) / (steps + seconds['on the way'] + after):.0%} of the CPU time"
    )


if __name__ == "__main__":
    main()
