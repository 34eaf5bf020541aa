"""Run EleutherAI's evaluation harness on a model, with tasks or a text. This module needs the `lm-eval` extra."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import ConfigError, CorpusError
from rnnlm.extensions.harness.harness_config import HarnessConfig
from rnnlm.runtime.extras import need_extra
from rnnlm.storage.home import Home
from rnnlm.storage.records import CorpusRecord, Record

FEWSHOT_SEED = 1234  # The seed for drawing few-shot examples, which is the harness's default.
BOOTSTRAP_RESAMPLES = 1_000  # The number of bootstrap resamples for metrics whose standard error has no formula.


class HarnessMetric(Record):
    """A metric of EleutherAI's lm-evaluation-harness."""

    task: str
    metric: str
    filter: str  # The filter that the harness applied to the answers, or `none`.
    value: float
    standard_error: float | None  # The standard error of the value, or None if the harness reports none.
    documents: int


class HarnessRecord(Record):
    lm_eval_version: str
    metrics: tuple[HarnessMetric, ...]


def run_harness(home: Home, folder: Path, config: HarnessConfig) -> HarnessRecord:
    """Return every metric of the configured tasks and text for the model in `folder`.

    Raise ConfigError for a task that is unknown or unsupported, and CorpusError for data that cannot be loaded.
    """
    need_extra("lm-eval", "rnnlm lm-eval")
    import lm_eval
    from datasets import disable_progress_bars

    from rnnlm.extensions.harness.recurrent_lm import RecurrentLM

    disable_progress_bars()
    model = RecurrentLM(str(folder), batch_size=config.batch_size)
    with tempfile.TemporaryDirectory(prefix="rnnlm-harness-") as scratch:
        names = list(config.tasks)
        if config.file is not None:
            names.append(str(write_text_task(Path(scratch), one_text(home, config.file))))
        loaded = load_tasks(names)
        for name, task in loaded["tasks"].items():
            refuse_unsupported(name, task)
            own = task.get_config("num_fewshot")
            if own != 0:  # A task with num_fewshot: 0 does not support few-shot examples.
                task.set_config("num_fewshot", config.fewshot if config.fewshot is not None else (own or 0))
            task.set_fewshot_seed(FEWSHOT_SEED)
        # simple_evaluate() is not used, because it needs seconds to load tasks and to collect data about the machine.
        results = lm_eval.evaluate(
            lm=model,
            task_dict=loaded,
            limit=config.limit,
            bootstrap_iters=BOOTSTRAP_RESAMPLES,
            log_samples=False,
        )
    return HarnessRecord(lm_eval_version=lm_eval.__version__, metrics=tuple(harness_metrics(results)))


def one_text(home: Home, file: str) -> CorpusRecord:
    """Return a text file as a corpus.

    The file is read in the same way as by `rnnlm evaluate`, so that the harness scores the same bytes.
    """
    corpus = obtain_corpus(home, CorpusConfig(source=file))
    if "text" not in corpus.files:
        raise CorpusError(
            f"--file {file}: expected one text, found the splits {', '.join(corpus.files)}; give one file, such as "
            "test.txt"
        )
    return corpus


def write_text_task(scratch: Path, corpus: CorpusRecord) -> Path:
    """Write a YAML task that measures the probability of the whole text as one document.

    The harness divides the log-probability by the number of UTF-8 bytes, including line feeds, and by the number of
    words. Its words are the parts between white space, including an empty one at the end.
    """
    task = {
        "task": f"file-{corpus.name}",
        "dataset_path": "text",  # The name of the loader by which `datasets` reads text files.
        "dataset_kwargs": {
            "data_files": {"test": str(corpus.folder / corpus.files["text"])},
            "sample_by": "document",
            # The data is stored in a temporary folder instead of the user's cache.
            "cache_dir": str(scratch / "datasets"),
        },
        "output_type": "loglikelihood_rolling",
        "test_split": "test",
        "num_fewshot": 0,
        "doc_to_text": "",  # The text is scored without a context.
        # The name of the column with the text. A template such as {{text}} would drop the last line feed.
        "doc_to_target": "text",
        "metadata": {"version": 1.0},
    }
    path = scratch / "file.yaml"
    path.write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
    return path


def load_tasks(names: Sequence[str]) -> dict[str, Any]:
    """Load tasks and groups by name, together with their data."""
    from lm_eval.tasks import TaskManager

    # The harness's own tasks are indexed only if one of them is wanted, because indexing takes seconds.
    manager = TaskManager(include_defaults=not all(Path(name).is_file() for name in names))
    loaded: dict[str, Any] = {"tasks": {}, "groups": {}, "group_map": {}}
    for name in names:
        if not (Path(name).is_file() or name in manager.all_tasks):
            raise ConfigError(
                f"--tasks {name}: neither a task of the harness nor a YAML file; `lm_eval ls tasks` lists the tasks"
            )
        try:
            found = manager.load([name])
        # Loading may fail for many reasons, such as a wrong file, a missing package or no network.
        except Exception as error:
            raise CorpusError(
                f"--tasks {name}: cannot load the task or its data ({type(error).__name__}: {first_line(error)});\n"
                "most tasks download their data, so check the network"
            ) from error
        for part in loaded:
            loaded[part] |= found[part]
    return loaded


def refuse_unsupported(name: str, task: Any) -> None:
    if getattr(task, "UNSAFE_CODE", False):
        raise ConfigError(
            f"--tasks {name}: executes code that the model writes, which is not supported; leave out this task"
        )
    if getattr(task, "MULTIMODAL", False):
        raise ConfigError(f"--tasks {name}: needs images or sound, but the model reads only text; leave out this task")


def harness_metrics(results: dict[str, Any]) -> Iterator[HarnessMetric]:
    """Yield the harness's results as records.

    The harness names a value `metric,filter` and its standard error `metric_stderr,filter`.
    """
    for task, figures in results["results"].items():
        for name, value in figures.items():
            metric, comma, filter_ = name.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = figures.get(f"{metric}_stderr,{filter_}")
            yield HarnessMetric(
                task=task,
                metric=metric,
                filter=filter_,
                value=float(value),
                standard_error=float(error) if isinstance(error, int | float) else None,
                documents=results["n-samples"].get(task, {}).get("effective", 0),
            )


def first_line(error: Exception) -> str:
    """Return the first line of the error's message, truncated to 160 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
