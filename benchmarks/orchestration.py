"""Measure the overhead of Prefect, MLflow, history and checkpoints over a bare loop on the same batches.

    python benchmarks/orchestration.py TEXT [--steps 300] [--rounds 7]

The overhead per step is measured in one process. A bare loop and the train task of a flow run are measured in turn,
each from new weights and over the same first steps. Evaluations are excluded on both sides. On a machine with other
users, whole rounds differ by more than the overhead. The time that a flow run spends outside its steps is therefore
also measured within the run. The fixed overhead is the wall-clock time of a whole `rnnlm train` of one step, minus that
of a bare script that loads the same libraries and takes the same step, with and without a running Prefect server.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flows.operations.prefect_environment import set_environment
from flows.operations.prefect_query import health_problem
from rnnlm.config import PipelineConfig
from rnnlm.config.presets import build_config
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home
from rnnlm.storage.records import DatasetRecord, RunRecord

BIN = Path(sys.executable).parent
STEP_TOKENS = 100  # The value of maximum_tokens for a run of one step. Every batch has more tokens.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7, help="of the steps; 0: the fixed cost alone")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare_step(options.text)
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        os.environ["RNNLM_HOME"] = str(home.root)
        set_environment(home)
        config, dataset = prepared(options.text)
        (home.root / "job.json").write_text(job_of(config, dataset), encoding="utf-8")
        if options.rounds:
            per_step(options, home, config, dataset)
        fixed(options, home)


def prepared(text: Path) -> tuple[PipelineConfig, DatasetRecord]:
    from flows.pipeline_flow import prepare_flow

    # A single evaluation is configured, because evaluations are excluded from both measurements.
    config = build_config(overrides=["training.validation.evaluations=1"], corpus=str(text))
    return config, prepare_flow(config).dataset


def job_of(config: PipelineConfig, dataset: DatasetRecord) -> str:
    return json.dumps({"config": config.model_dump(mode="json"), "dataset": dataset.model_dump(mode="json")})


def per_step(options: argparse.Namespace, home: Home, config: PipelineConfig, dataset: DatasetRecord) -> None:
    ratios, outside = [], []
    for number in range(options.rounds):
        seconds, tokens = bare(config, dataset, options.steps)
        orchestrated, share = orchestrated_seconds(config, dataset, tokens, seed=number)
        ratios.append(orchestrated / (seconds / options.steps))
        outside.append(share)
        print(
            f"round {number}: bare {1000 * seconds / options.steps:.2f} ms a step, orchestrated × {ratios[-1]:.4f}, "
            f"of which {share:.2%} outside of the steps"
        )
    print(f"\norchestrated over bare, median of {options.rounds}: {statistics.median(ratios):.4f}")
    print(f"outside of the steps, median: {statistics.median(outside):.2%}")


def bare(config: PipelineConfig, dataset: DatasetRecord, steps: int) -> tuple[float, int]:
    """Return the seconds and predicted tokens of a bare training loop, which only reads batches and updates weights."""
    import torch

    from rnnlm.models.model_factory import build_model
    from rnnlm.sequences.data_feed import TrainingBatches
    from rnnlm.sequences.dataset_reader import StoredSplit
    from rnnlm.sequences.unigram import unigram_counts
    from rnnlm.training.optimizer_step import BatchLoss, Updater, choose_loss, take_step
    from rnnlm.training.optimizers import make_optimizer
    from rnnlm.training.schedules import Schedule
    from rnnlm.training.seeding import step_generator

    training = config.training
    model = build_model(config.model, dataset.vocabulary_size, 0)
    loss = choose_loss(training, unigram_counts(dataset))
    optimizer = make_optimizer(model, training.optimizer)
    updater = Updater(BatchLoss(model, loss), optimizer, training.optimizer.clip_norm)
    schedule = Schedule(optimizer, training.schedule, steps)
    feed = TrainingBatches(StoredSplit(dataset, "train"), dataset.mode, training.batch_size, 35, seed=0)
    tokens, state = 0, None
    start = time.perf_counter()
    for step, batch in zip(range(steps), feed, strict=False):
        state = take_step(updater, batch, state, step_generator(0, step)).state
        schedule.step()
        tokens += batch.predicted_tokens
    assert torch.isfinite(model.head.weight).all()
    return time.perf_counter() - start, tokens


def orchestrated_seconds(config: PipelineConfig, dataset: DatasetRecord, tokens: int, seed: int) -> tuple[float, float]:
    """Return the seconds per step of the train task in a flow run, and the fraction of them outside take_step().

    The seconds are computed from the run's history, as the time between measurements without pauses.
    """
    from prefect import flow

    from rnnlm.training import training_loop as training_module
    from tasks.training import train_model

    @flow(name="orchestration-benchmark")
    def train(config: PipelineConfig, dataset: DatasetRecord) -> RunRecord:
        return train_model(config, dataset)

    # A slightly different weight decay in each round prevents the flow from using the result of the previous round.
    optimizer = config.training.optimizer.model_copy(update={"weight_decay": 0.01 + seed / 1e6})
    training = config.training.model_copy(update={"maximum_tokens": tokens, "optimizer": optimizer})
    step_seconds: list[float] = []
    take_step = training_module.take_step

    def timed_step(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        taken = take_step(*arguments, **named)
        step_seconds.append(time.perf_counter() - start)
        return taken

    training_module.take_step = timed_step
    try:
        run = train(config.model_copy(update={"training": training}), dataset)
    finally:
        training_module.take_step = take_step
    lines = [json.loads(line) for line in (run.folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    measured = [line for line in lines if line["kind"] == "training"]
    seconds = steps = 0.0
    before_tokens = before_step = 0.0
    for line in measured:
        trained = line["metrics"]["trained_tokens"]
        seconds += (trained - before_tokens) / line["metrics"]["tokens_per_second"]
        steps += line["step"] - before_step
        before_tokens, before_step = trained, line["step"]
    return seconds / steps, 1.0 - sum(step_seconds[: int(steps)]) / seconds


def fixed(options: argparse.Namespace, home: Home) -> None:
    bare_seconds, without, with_server = [], [], []
    number = 0
    for _ in range(3):
        bare_seconds.append(wall([sys.executable, str(Path(__file__).resolve()), "--bare", str(home.root)]))
        without.append(wall(train_command(options.text, number), dict(os.environ)))
        number += 1
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = dict(os.environ) | {"PREFECT_API_URL": url}
    server = subprocess.Popen(
        [str(BIN / "prefect"), "server", "start", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    try:
        wait_for_server(url)
        for _ in range(3):
            with_server.append(wall(train_command(options.text, number), environment))
            number += 1
    finally:
        server.terminate()
        server.wait()
    script = statistics.median(bare_seconds)
    print("\n| one step | wall, s | over the bare script, s |\n|---|---|---|")
    for name, walls in (("bare script", bare_seconds), ("no server", without), ("server up", with_server)):
        seconds = statistics.median(walls)
        print(f"| {name} | {seconds:.1f} | {seconds - script:.1f} |")


def train_command(text: Path, number: int) -> list[str]:
    settings = [f"training.maximum_tokens={STEP_TOKENS}", f"training.optimizer.weight_decay={0.02 + number / 1e6}"]
    settings += ["training.validation.evaluations=1", f"corpus.source={text}"]
    return [str(BIN / "rnnlm"), "train", *(word for setting in settings for word in ("--set", setting))]


def wall(command: list[str], environment: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return time.perf_counter() - start


def bare_step(home: Path) -> None:
    """Train one step and evaluate in a bare script, for comparison with `rnnlm train`."""
    from rnnlm.config import EvaluationConfig
    from rnnlm.evaluation.token_losses import nll_of_split
    from rnnlm.models.model_factory import build_model
    from rnnlm.sequences.dataset_reader import StoredSplit

    job = json.loads((home / "job.json").read_text(encoding="utf-8"))
    config, dataset = PipelineConfig.model_validate(job["config"]), DatasetRecord.model_validate(job["dataset"])
    bare(config, dataset, 1)
    model = build_model(config.model, dataset.vocabulary_size, 0)
    # The script scores the splits as often as a run: at the end of training, in the evaluation, and for the token
    # losses.
    for split in ("valid", "valid", "test", "test"):
        list(nll_of_split(model, StoredSplit(dataset, split), dataset.mode, EvaluationConfig().batch_size))


def wait_for_server(api: str) -> None:
    if not poll_until(lambda: not health_problem(api), 60, every_seconds=0.1):
        sys.exit(f"{api}: no answer in a minute")


if __name__ == "__main__":
    main()
