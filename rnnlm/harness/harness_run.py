"""EleutherAI's harness, run on a model of ours: tasks of its own, or a text as a task. Needs the extra `lm-eval`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rnnlm.config import CorpusConfig
from rnnlm.corpora.download import obtain_corpus
from rnnlm.errors import ConfigError, CorpusError
from rnnlm.extras import need_extra
from rnnlm.home import Home
from rnnlm.records import CorpusRecord, HarnessMetric, HarnessRecord

SEED = 1234  # of the examples before a question: the harness's own default
RESAMPLES = 1_000  # of the bootstrap, where a metric's standard error has no formula


def run_harness(
    home: Home,
    folder: Path,
    tasks: list[str],
    file: str | None = None,
    *,
    limit: float | None = None,
    fewshot: int | None = None,
    batch_size: int = 64,
) -> HarnessRecord:
    """Every figure of the tasks and of the text in `file` (anything `--corpus` takes that is one text).

    limit: documents of each task; below 1, a share of them. ConfigError for a task that is unknown or cannot be run;
    CorpusError for data that cannot be had.
    """
    need_extra("lm-eval", "rnnlm lm-eval")
    import lm_eval
    from datasets import disable_progress_bars

    from rnnlm.harness.language_model import RecurrentLM

    disable_progress_bars()  # a bar for one file is noise
    model = RecurrentLM(str(folder), batch_size=batch_size)
    with tempfile.TemporaryDirectory(prefix="rnnlm-harness-") as scratch:
        wanted = list(tasks)
        if file is not None:
            wanted.append(str(write_text_task(Path(scratch), one_text(home, file))))
        loaded = load_tasks(wanted)
        for name, task in loaded["tasks"].items():
            refuse_what_we_do_not_do(name, task)
            given = task.get_config("num_fewshot")
            if given != 0:  # a task that says 0 cannot have examples
                task.set_config("num_fewshot", fewshot if fewshot is not None else (given or 0))
            task.set_fewshot_seed(SEED)
        # Not simple_evaluate: that loads the tasks by itself, and describes the machine for seconds.
        results = lm_eval.evaluate(
            lm=model, task_dict=loaded, limit=limit, bootstrap_iters=RESAMPLES, log_samples=False
        )
    return HarnessRecord(lm_eval_version=lm_eval.__version__, metrics=tuple(metrics_of(results)))


def one_text(home: Home, file: str) -> CorpusRecord:
    """The corpus as `rnnlm evaluate` reads it: the same bytes, so that the figures can be the same."""
    corpus = obtain_corpus(home, CorpusConfig(source=file))
    if "text" not in corpus.files:
        raise CorpusError(
            f"--file {file}: has the splits {', '.join(corpus.files)}; give one text, such as its test.txt"
        )
    return corpus


def write_text_task(scratch: Path, corpus: CorpusRecord) -> Path:
    """A task of the harness as YAML: the whole text one document, whose probability alone is asked for.

    The harness then divides by the document's UTF-8 bytes, line feeds included, and by its words: its pieces between
    white space, an empty one at the end among them.
    """
    task = {
        "task": f"file-{corpus.name}",
        "dataset_path": "text",  # the reader of text files in `datasets`
        "dataset_kwargs": {
            "data_files": {"test": str(corpus.folder / corpus.files["text"])},
            "sample_by": "document",
            "cache_dir": str(scratch / "datasets"),  # nothing is left in the user's cache
        },
        "output_type": "loglikelihood_rolling",
        "test_split": "test",
        "num_fewshot": 0,
        "doc_to_text": "",  # no context
        "doc_to_target": "text",  # the column as it is; a template would lose the last line feed
        "metadata": {"version": 1.0},
    }
    path = scratch / "file.yaml"
    path.write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
    return path


def load_tasks(wanted: list[str]) -> dict[str, Any]:
    """Tasks and groups by name, with their data."""
    from lm_eval.tasks import TaskManager

    # Reading the index of all tasks takes seconds: only where one of them is asked for.
    manager = TaskManager(include_defaults=not all(Path(name).is_file() for name in wanted))
    loaded: dict[str, Any] = {"tasks": {}, "groups": {}, "group_map": {}}
    for name in wanted:
        if not (Path(name).is_file() or name in manager.all_tasks):
            raise ConfigError(
                f"--tasks {name}: no task of the harness, and no YAML file; `lm_eval ls tasks` lists them"
            )
        try:
            found = manager.load([name])
        except Exception as error:  # whatever a wrong file, a missing package or an absent network makes of it
            raise CorpusError(
                f"--tasks {name}: it or its data cannot be loaded ({type(error).__name__}: {first_line(error)});\n"
                "most tasks download their data"
            ) from error
        for part in loaded:
            loaded[part] |= found[part]
    return loaded


def refuse_what_we_do_not_do(name: str, task: Any) -> None:
    if getattr(task, "UNSAFE_CODE", False):
        raise ConfigError(f"--tasks {name}: runs what the model writes as code, which is not done here; leave it out")
    if getattr(task, "MULTIMODAL", False):
        raise ConfigError(f"--tasks {name}: asks about pictures or sound, and the model reads text; leave it out")


def metrics_of(results: dict[str, Any]) -> Iterator[HarnessMetric]:
    """The harness names a figure `metric,filter`, and its standard error `metric_stderr,filter`."""
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
    """At most 160 characters of what it says."""
    said = str(error).strip().splitlines()
    return said[0][:160] if said else type(error).__name__
