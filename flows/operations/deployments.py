"""Create the work pool and the deployments of prefect.yaml, or a user's deployment, on the server at PREFECT_API_URL.

A deployment names an installed module (`flows.pipeline_flow.pipeline_flow`) and not a file of a checkout, so that a
worker can run it wherever rnnlm is installed.
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

# The job template of the process pool, in which a run may only set the name and the labels of its process. Command,
# environment and folder are not variables of the template, because a run could use each of them to execute other
# programs. The worker finds the command without the template. The template has no `env`, because Prefect would merge a
# run's `env` into it. Flow runs inherit the environment of their worker.
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
GPU_QUEUE = "gpu"  # The name of the queue in prefect.yaml for runs that need a GPU.
Plan = dict[str, Any]  # An entry of `deployments` in prefect.yaml.
MODEL_USERS = ("score", "filter")  # The deployments for which the user may choose a registered model.
# The default model before 2026-11-27. It does not count as a choice of the user.
FORMER_MODEL = "models:/rnnlm-python-docs@champion"


def read_plans() -> list[Plan]:
    """Return the deployments of prefect.yaml whose flows are installed, with the settings of their presets.

    A flow is not installed if its extension was deleted.
    """
    plans: list[Plan] = yaml.safe_load(package_file("prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    for plan in plans:
        config = plan.get("parameters", {}).get("config", {})
        if "preset" in config:
            plan["parameters"]["config"] = with_preset_settings(config)
    return [plan for plan in plans if find_spec(plan["entrypoint"].rpartition(".")[0])]


def full_name(plan: Plan) -> str:
    """Return Prefect's name of a deployment, FLOW/NAME, such as `pipeline/nightly`."""
    return f"{plan['entrypoint'].rpartition('.')[2].removesuffix('_flow')}/{plan['name']}"


def deploy_all(home: Home) -> list[str]:
    """Create the process work pool, the deployments of prefect.yaml and the automations. Return the deployments' names.

    A repeated call updates them, except for a user's choices (see kept_choices). Deployments that need a GPU are left
    out if `rnnlm up` has started the only worker on a machine without a GPU. Runs that died together with the server
    get a final state, and interrupted runs are started again.
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
        # The MLflow store is created here, because `mlflow ui` and a first run might otherwise create it at the same
        # time.
        prepare_store(home)
        settle_dead_runs(home)
        resume_interrupted(client, home)
    return [full_name(plan) for plan in plans]


def has_gpu() -> bool:
    """Return True if the worker of `rnnlm up` takes runs from the `gpu` queue."""
    return shutil.which("nvidia-smi") is not None


def is_for_gpu(plan: Plan) -> bool:
    return bool(plan["work_pool"]["work_queue_name"] == GPU_QUEUE)


def remove_gpu_queue(client: "SyncPrefectClient", plans: list[Plan]) -> None:
    """Delete the deployments of `plans`, and the GPU queue unless another deployment uses it.

    Without a worker for this queue, Prefect's UI would always show the queue as not ready.
    """
    for deployment in client.read_deployments():
        if deployment.work_queue_name == GPU_QUEUE and deployment.name in {plan["name"] for plan in plans}:
            client.delete_deployment(deployment.id)
    used = {deployment.work_queue_name for deployment in client.read_deployments()}
    for queue in client.read_work_queues(WORK_POOL):
        if queue.name == GPU_QUEUE and GPU_QUEUE not in used:
            client.delete_work_queue_by_id(queue.id)


def create_work_pool(client: "SyncPrefectClient") -> None:
    """Create the process pool with rnnlm's job template.

    A pool of another type, such as the Kubernetes pool of deploy/, keeps its template. Environment variables that a
    user has added to the pool are kept.
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
    """Create or update one deployment, and return its id. A paused deployment stays paused.

    `tags` is given only for a deployment that the user created. Others keep the user's choices (see kept_choices).
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
    """Return the plan with the choices that the user made in the Prefect UI: active schedules and the scoring model."""
    plan = copy.deepcopy(plan)
    switches = {one.slug: one.active for one in existing.schedules}
    for schedule in plan.get("schedules", []):
        schedule["active"] = switches.get(schedule["slug"], schedule["active"])
    model = (existing.parameters.get("config") or {}).get("model")
    if plan["name"] in MODEL_USERS and model not in (None, FORMER_MODEL):
        plan["parameters"]["config"]["model"] = model
    return plan
