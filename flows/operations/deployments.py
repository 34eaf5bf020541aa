"""Create the work pool and deployments on the server at PREFECT_API_URL: those of prefect.yaml, and a user's own.

A deployment names an installed module (`flows.pipeline_flow.pipeline_flow`), not a file of a checkout: a worker runs it
wherever rnnlm is installed.
"""

import copy
import importlib
import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import yaml

from flows.operations.console import show_library_lines
from flows.operations.home_servers import read_running
from flows.operations.prefect_query import WORK_POOL, wait_for_server
from rnnlm.config.preset_files import with_preset_settings
from rnnlm.storage.home import Home
from rnnlm.storage.package_files import package_file
from rnnlm.tracking.mlflow_store import prepare_store

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.responses import DeploymentResponse

# A run of the process pool may choose only the name and the labels of its process. Command, environment and folder
# are not among the variables, since each of them could run something else; the worker finds the command itself. There
# is no `env` at all: a run's own would be merged into it. Flow runs have the environment of their worker.
JOB_TEMPLATE: dict[str, Any] = {
    "job_configuration": {
        "command": None,
        "labels": "{{ labels }}",
        "name": "{{ name }}",
        "stream_output": True,
        "working_dir": None,
    },
    "variables": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "labels": {"type": "object", "title": "Labels", "additionalProperties": {"type": "string"}},
        },
    },
}
GPU_QUEUE = "gpu"  # as in prefect.yaml
Plan = dict[str, Any]  # one entry of `deployments` in prefect.yaml
MODEL_USERS = ("score", "filter")  # deployments that use a registered model, which a person may choose
FORMER_MODEL = "models:/rnnlm-python-docs@champion"  # came with rnnlm before 2026-11-27; nobody has chosen it


def read_plans() -> list[Plan]:
    """Return the deployments of prefect.yaml whose flows are there, with their presets' settings.

    Flows of a deleted extension are not there.
    """
    plans: list[Plan] = yaml.safe_load(package_file("prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    for plan in plans:
        config = plan.get("parameters", {}).get("config", {})
        if "preset" in config:
            plan["parameters"]["config"] = with_preset_settings(config)
    return [plan for plan in plans if find_spec(plan["entrypoint"].rpartition(".")[0])]


def full_name(plan: Plan) -> str:
    """Return a text such as `pipeline/nightly`: Prefect's name of a deployment is that of its flow and its own."""
    return f"{plan['entrypoint'].rpartition('.')[2].removesuffix('_flow')}/{plan['name']}"


def deploy_all(home: Home) -> list[str]:
    """Create the process work pool, the deployments of prefect.yaml and the automations; return the deployments' names.

    Idempotent: running it again updates what exists, except what a person has chosen: see kept_choices. What waits for
    a GPU is left out if the only worker is that of `rnnlm up` on a machine without one. Also settles runs that died
    together with the server, and starts interrupted ones again.
    """
    from prefect.client.orchestration import get_client

    from flows.operations.automations import deploy_automations
    from flows.operations.dead_runs import settle_dead_runs
    from flows.operations.interrupted_runs import resume_interrupted

    show_library_lines()
    wait_for_server(os.environ["PREFECT_API_URL"])
    plans = read_plans()
    with get_client(sync_client=True) as client:
        create_work_pool(client)
        if read_running(home) and not has_gpu():
            remove_gpu_queue(client, [plan for plan in plans if is_for_gpu(plan)])
            plans = [plan for plan in plans if not is_for_gpu(plan)]
        for plan in plans:
            apply(client, plan)
        deploy_automations(client)
        prepare_store(home)  # before `mlflow ui` and a first run could migrate it at the same time
        settle_dead_runs(home)
        resume_interrupted(client, home)
    return [full_name(plan) for plan in plans]


def has_gpu() -> bool:
    """Return True if the worker of `rnnlm up` takes runs from the queue `gpu`."""
    return shutil.which("nvidia-smi") is not None


def is_for_gpu(plan: Plan) -> bool:
    return bool(plan["work_pool"]["work_queue_name"] == GPU_QUEUE)


def remove_gpu_queue(client: "SyncPrefectClient", plans: list[Plan]) -> None:
    """Delete the plans' deployments, and the queue unless another deployment uses it: no worker asks for its runs.

    Prefect's UI would show it as not ready for ever.
    """
    for deployment in client.read_deployments():
        if deployment.work_queue_name == GPU_QUEUE and deployment.name in {plan["name"] for plan in plans}:
            client.delete_deployment(deployment.id)
    used = {deployment.work_queue_name for deployment in client.read_deployments()}
    for queue in client.read_work_queues(WORK_POOL):
        if queue.name == GPU_QUEUE and GPU_QUEUE not in used:
            client.delete_work_queue_by_id(queue.id)


def create_work_pool(client: "SyncPrefectClient") -> None:
    """Create the process pool with our job template.

    A pool of another type keeps its own, as that for Kubernetes in deploy/.

    Variables of the environment that a person has given the pool stay.
    """
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists

    try:
        client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type="process", base_job_template=JOB_TEMPLATE))
    except ObjectAlreadyExists:
        pool = client.read_work_pool(WORK_POOL)
        given = pool.base_job_template.get("variables", {}).get("properties", {}).get("env", {})
        template = copy.deepcopy(JOB_TEMPLATE)
        if given.get("default"):
            template["variables"]["properties"]["env"] = given
        if pool.type == "process" and pool.base_job_template != template:
            client.update_work_pool(WORK_POOL, WorkPoolUpdate(base_job_template=template))


def apply(client: "SyncPrefectClient", plan: Plan, tags: tuple[str, ...] = ()) -> str:
    """Create or update one deployment; returns its id. It stays paused if it was.

    tags: of a user's own deployment. The others keep what a person has chosen: see kept_choices.
    """
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.deployments.runner import EntrypointType
    from prefect.exceptions import ObjectNotFound
    from prefect.schedules import Schedule

    module, _, function = plan["entrypoint"].rpartition(".")
    flow = getattr(importlib.import_module(module), function)
    try:
        existing = client.read_deployment_by_name(full_name(plan))
        paused = existing.paused
        plan = plan if tags else kept_choices(plan, existing)
    except ObjectNotFound:
        paused = False
    limit = plan.get("concurrency_limit")
    deployment = flow.to_deployment(
        plan["name"],
        description=plan["description"],
        parameters=plan.get("parameters", {}),
        schedules=[Schedule(**schedule) for schedule in plan.get("schedules", [])],
        concurrency_limit=ConcurrencyLimitConfig(**limit) if limit else None,
        work_pool_name=plan["work_pool"]["name"],
        work_queue_name=plan["work_pool"]["work_queue_name"],
        job_variables=plan["work_pool"]["job_variables"],
        tags=[*plan.get("tags", []), *tags],
        paused=paused,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    return str(deployment.apply())


def kept_choices(plan: Plan, existing: "DeploymentResponse") -> Plan:
    """Return the plan with what a person chose in the Prefect UI: which schedules are on, and the scoring model."""
    plan = copy.deepcopy(plan)
    switches = {one.slug: one.active for one in existing.schedules}
    for schedule in plan.get("schedules", []):
        schedule["active"] = switches.get(schedule["slug"], schedule["active"])
    model = (existing.parameters.get("config") or {}).get("model")
    if plan["name"] in MODEL_USERS and model not in (None, FORMER_MODEL):
        plan["parameters"]["config"]["model"] = model
    return plan
