"""The files of deploy/ pass the checks of Compose, of Kubernetes' schemas, of hadolint and of Prefect's worker."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rnnlm.storage.package_files import package_file

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
pytestmark = pytest.mark.services


def tool(name: str) -> str:
    """Return the path of a command that the `services` extra installs in the folder of this Python."""
    return str(Path(sys.executable).parent / name)


def succeed(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_compose_file_follows_the_specification() -> None:
    succeed(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml")


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    assert succeed(tool("hadolint"), "deploy/Dockerfile") == ""


def test_everything_that_the_image_copies_exists_and_is_sent_to_the_builder() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for name in [name for names in copied for name in names]:
        assert (ROOT / name).exists()
        assert f"!{name}" in sent


@pytest.mark.parametrize("manifest", sorted((DEPLOY / "kubernetes").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_manifest_follows_the_schemas_of_kubernetes(manifest: Path) -> None:
    succeed(sys.executable, "-m", "kubernetes_validate", "--strict", str(manifest))


def test_the_manifest_of_training_on_several_nodes_follows_the_schemas(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "distributed.md").read_text(encoding="utf-8")
    _, manifest = page.split("```yaml\n", 1)
    (tmp_path / "job.yaml").write_text(manifest.split("```")[0])
    succeed(sys.executable, "-m", "kubernetes_validate", "--strict", str(tmp_path / "job.yaml"))


def test_kustomize_renders_what_follows_the_schemas(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is missing; the manifests themselves are checked above")
    rendered = succeed("kubectl", "kustomize", "deploy")
    documents = list(yaml.safe_load_all(rendered))
    assert {"StatefulSet", "Deployment", "Ingress", "ConfigMap", "Role", "PersistentVolumeClaim"} <= {
        document["kind"] for document in documents
    }
    assert {document["metadata"]["namespace"] for document in documents} == {"rnnlm"}
    (tmp_path / "all.yaml").write_text(rendered, encoding="utf-8")
    succeed(sys.executable, "-m", "kubernetes_validate", "--strict", str(tmp_path / "all.yaml"))


def job_of(deployment: str) -> dict[str, Any]:
    """Return the Job that Prefect's Kubernetes worker would create for a run of a deployment in prefect.yaml."""
    from prefect.client.schemas.objects import FlowRun
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
    from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

    plans = yaml.safe_load(package_file("prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    [plan] = [plan for plan in plans if plan["name"] == deployment]
    template = json.loads((DEPLOY / "work-pool.json").read_text(encoding="utf-8"))
    variables = plan["work_pool"]["job_variables"]
    worker = {PREFECT_API_URL: "http://prefect:4200/api", PREFECT_API_AUTH_STRING: "team:password"}
    with temporary_settings(worker):
        configuration = asyncio.run(KubernetesWorkerJobConfiguration.from_template_and_values(template, variables))
        configuration.prepare_for_flow_run(FlowRun.model_validate({"flow_id": "0" * 32, "name": "a night"}))
    job: dict[str, Any] = configuration.job_manifest
    return job


@pytest.mark.parametrize(("deployment", "gpus"), [("nightly", 0), ("train-gpu", 1)])
def test_the_work_pool_gives_a_job_that_kubernetes_accepts(deployment: str, gpus: int, tmp_path: Path) -> None:
    job = job_of(deployment)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == gpus
    environment = {one["name"]: one for one in container["env"]}
    assert environment["PREFECT_API_URL"]["value"] == "http://prefect:4200/api"
    assert "valueFrom" in environment["MLFLOW_TRACKING_PASSWORD"]
    assert job["metadata"]["namespace"] == "rnnlm"
    # Prefect's worker requires these fields here. Kubernetes ignores them, and the checker refuses them.
    for name in ("completions", "parallelism"):
        del job["spec"]["template"]["spec"][name]
    # The Job gets a name, because the checker does not accept generateName.
    job["metadata"]["name"] = job["metadata"].pop("generateName")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    succeed(sys.executable, "-m", "kubernetes_validate", "--strict", str(tmp_path / "job.yaml"))


def test_flow_runs_on_kubernetes_get_the_variables_that_workers_get_by_compose() -> None:
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    wanted = set(yaml.safe_load(compose)["x-clients"])
    template = json.loads((DEPLOY / "work-pool.json").read_text(encoding="utf-8"))
    [container] = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]["containers"]
    given = {one["name"] for one in container["env"]}
    # The worker passes its own values of these environment variables on to the job.
    from_worker = {"PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_UI_URL"}
    assert wanted - given == from_worker
    settings = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))["configMapGenerator"]
    [literals] = [one["literals"] for one in settings if one["name"] == "clients"]
    secrets = {"PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_PASSWORD"}
    assert {literal.partition("=")[0] for literal in literals} == wanted - secrets
