"""Start a flow run: name and tag it, show the library's log lines, lock a file while it lives, complete its config.

A run's name and tags say schedule, corpus, preset and date, without paths and digests.
"""

import atexit
import contextlib
import fcntl
import functools
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from prefect import Flow, flow
from prefect.artifacts import create_link_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.states import Failed

from flows.operations.console import shorten_own_errors, show_library_lines
from flows.operations.run_locks import lock_file, unlocked_name
from rnnlm.config import PipelineConfig, Section
from rnnlm.config.presets import change_preset, with_choices
from rnnlm.corpora.source_names import corpus_name
from rnnlm.errors import RnnlmError, close_to, is_worth_a_retry
from rnnlm.registry.version_tags import settings_fact
from rnnlm.storage.home import find_home
from rnnlm.tracking.mlflow_store import check_addresses
from rnnlm.tracking.run_names import OWN_SCHEDULE, run_name

logger = logging.getLogger(__name__)
MAIN_FLOW = "pipeline"  # its runs are named without the flow
ConfigT = TypeVar("ConfigT", bound=Section)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
HELD_LOCKS: list[int] = []  # file descriptors that hold the locks of this process's flow runs until it ends


def rnnlm_flow(name: str) -> Callable[[Callable[Parameters, Result]], Flow[Parameters, Result]]:
    """Decorator: a Prefect flow whose runs have names from flow_run_label, and whose failures are plain."""

    def decorated(function: Callable[Parameters, Result]) -> Flow[Parameters, Result]:
        settings = flow(name=name, flow_run_name=flow_run_label, on_crashed=[fail_with_unknown_parameters])
        return settings(plain_failures(function))

    return decorated


def fail_with_unknown_parameters(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook of crashed runs: a parameter that the flow does not have is a failure, which is not resumed.

    Prefect's API accepts any name; the run's process then ends with "a general error" before the flow begins.
    """
    known = flow.parameters.properties
    if unknown := sorted(flow_run.parameters.keys() - known.keys()):
        hints = "".join(close_to(name, known) for name in unknown)
        message = f"unknown parameters: {', '.join(unknown)}; expected {', '.join(known)}{hints}"
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, Failed(message=message), force=True)


def plain_failures(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorator of a flow's function: an error that the user must fix becomes the run's state with its own message.

    Prefect would write "Flow run encountered an exception: CorpusError: …", and log a traceback. Callers get the error
    as an exception all the same. What may be retried stays with Prefect, which counts the retries.
    """

    @functools.wraps(function)
    def run(*arguments: Parameters.args, **settings: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **settings)
        except RnnlmError as error:
            if is_worth_a_retry(error):
                raise
            return cast(Result, Failed(message=str(error), data=error))

    return run


def start_flow_run(config: ConfigT) -> ConfigT:
    """Lock the run's file and return the configuration to run with: the deployment's, overridden by `config`."""
    show_library_lines()  # in a worker's process too
    shorten_own_errors()
    hold_run_lock()
    check_addresses()  # else the run would be trained, and then not registered
    if os.environ.get("PREFECT__FLOW_RUN_ID"):  # a worker started this process, in a temporary folder
        os.chdir(find_home().root)  # relative paths of a deployment are relative to the home
        atexit.register(silence_stderr)
    return with_deployment_values(config)


def silence_stderr() -> None:
    """Redirect standard error to /dev/null at the end of the process.

    Prefect's threads outlive the interpreter's teardown and keep DuckDB's types alive; nanobind would report them as
    leaked in fifty lines.
    """
    sys.stderr.flush()
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), 2)


def hold_run_lock() -> None:
    """Lock the flow run's file until this process ends; run_locks.py says why."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    home = find_home()
    final = lock_file(home, context.flow_run.id)
    home.make(final.parent)
    partial = unlocked_name(final)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    partial.replace(final)  # renamed only once locked: under its final name, an unlocked file means a dead run
    HELD_LOCKS.append(descriptor)


def with_deployment_values(config: ConfigT) -> ConfigT:
    """Merge the run's own values over its deployment's, section by section. Other runs get `config` unchanged.

    Prefect itself would replace the deployment's `config` as a whole.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        deployed = client.read_deployment(run.deployment_id).parameters
    ours, given = deployed.get("config", {}), run.parameters.get("config", {})
    deployed_preset = ours.get("preset", "default")
    if given.get("preset", deployed_preset) != deployed_preset:
        return type(config).model_validate(change_preset(ours, given))
    return type(config).model_validate(merged(ours, given))


def with_schedules_policy(config: PipelineConfig) -> PipelineConfig:
    """policy_of_run() with the parameters of the current run's deployment; without one the configuration unchanged."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return config
    with get_client(sync_client=True) as client:
        return policy_of_run(config, client.read_deployment(run.deployment_id).parameters)


def policy_of_run(config: PipelineConfig, parameters: dict[str, Any]) -> PipelineConfig:
    """The configuration with registry.promote=by_policy if the run has exactly its deployment's settings.

    A run by hand or from the form with other settings is an experiment: its model has to be better. parameters: of the
    deployment, in which a person may have filled in the short fields of the form, too.
    """
    if config.registry.promote is not None:
        return config
    names = ("corpus", "preset", "maximum_tokens", "settings")
    choices = {name: parameters[name] for name in names if parameters.get(name)}
    deployed = with_choices(PipelineConfig.model_validate(parameters.get("config", {})), **choices)
    if config.corpus.source != deployed.corpus.source or settings_fact(config) != settings_fact(deployed):
        return config
    return config.model_copy(update={"registry": config.registry.model_copy(update={"promote": "by_policy"})})


def merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """`override` over `base`; two dictionaries under one name are merged in the same way."""
    values = base | override
    for name in base.keys() & override.keys():
        if isinstance(base[name], dict) and isinstance(override[name], dict):
            values[name] = merged(base[name], override[name])
    return values


def flow_run_label() -> str:
    """`tickets · smoke · 23 Nov 02:00`, or `score inbox · 23 Nov 05:00`; the name of a user's own schedule comes first.

    Prefect calls it when a flow run starts. The run is tagged here, too, before anything in it can fail, so that a list
    filtered by a tag shows the failed nights.
    """
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow is not None
    flow = context.flow.name
    subject, preset, schedule = "", "", ""
    with failures_ignored():  # a wrong configuration is reported by the flow itself
        subject, preset = subject_of(context.parameters or {})
        schedule = own_schedule(context)
    planned = context.flow_run.expected_start_time if context.flow_run else None
    title = subject if subject and flow == MAIN_FLOW else f"{flow} {subject}".strip()
    if schedule not in ("", subject):
        title = f"{schedule} · {title}"
    tag_run(*filter(None, (subject, preset, schedule)))
    name = run_name(title, preset, planned or datetime.now(UTC))
    with failures_ignored():
        return distinct_name(context, name)
    return name  # the server did not answer


def distinct_name(context: FlowRunContext, name: str) -> str:
    """Give the run its name; the second of a minute is `… 23 Nov 02:00 (2)`. Returns the name."""
    run = context.flow_run
    if run is None:
        return name
    like = FlowRunFilter(name=FlowRunFilterName(like_=name))
    with find_home().lock("run-names"), get_client(sync_client=True) as client:
        taken = {one.name for one in client.read_flow_runs(flow_run_filter=like) if one.id != run.id}
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        free = next(one for one in itertools.chain([name], numbered) if one not in taken)
        client.update_flow_run(run.id, name=free)
    return free


def own_schedule(context: FlowRunContext) -> str:
    """The name of the user's own schedule that has started the run; "" for other runs."""
    run = context.flow_run
    if run is None or run.deployment_id is None:
        return ""
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment(run.deployment_id)
    return deployment.name if OWN_SCHEDULE in deployment.tags else ""


def subject_of(parameters: dict[str, Any]) -> tuple[str, str]:
    """Corpus and preset of a flow's parameters; "" for what they do not have."""
    for given in parameters.values():
        if isinstance(given, PipelineConfig):
            given = with_choices(
                with_deployment_values(given), parameters.get("corpus", ""), parameters.get("preset", "")
            )
        if isinstance(given, Section):
            source, preset = with_deployment_values(given).subject()
            return (corpus_name(source) if source is not None else ""), preset
    return "", ""


def tag_run(*tags: str) -> None:
    """Add tags to the current flow run; without one, or without a server, nothing happens."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with failures_ignored(), get_client(sync_client=True) as client:
        before = client.read_flow_run(context.flow_run.id).tags
        client.update_flow_run(context.flow_run.id, tags=sorted({*before, *tags}))


@contextlib.contextmanager
def failures_ignored() -> Iterator[None]:
    """A wrong name or tag must not fail a run."""
    try:
        yield
    except Exception as error:
        logger.debug("run label: %s", error)


def link_to_mlflow(run_url: str | None) -> None:
    """Show the address of an MLflow run on the flow run's page; None: there is none."""
    if run_url:
        create_link_artifact(
            run_url, "The comparison in MLflow", key="mlflow-run", description="Figures and plot in MLflow"
        )
