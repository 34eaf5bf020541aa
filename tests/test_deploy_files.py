"""The files of deploy/ agree with each other, with the page about deployment, and with the programs that read them."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import mlflow.environment_variables
import prefect.settings
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
PAGE = (ROOT / "docs" / "how-to" / "team.md").read_text(encoding="utf-8")
NAME = re.compile(r"\b(?:RNNLM|PREFECT|MLFLOW|POSTGRES|MINIO|PG|AWS|OMP|HF)_?[A-Z][A-Z0-9_]+\b|\bDO_NOT_TRACK\b")
IMAGE = re.compile(r"registry\.example\.org/rnnlm:[\w.-]+")
OTHER_TOOLS = {  # These environment variables belong to other programs and cannot be checked here.
    *("POSTGRES_USER", "POSTGRES_PASSWORD", "PGDATA"),  # The image of PostgreSQL reads these environment variables.
    *("PGHOST", "PGPORT", "PGUSER", "PGPASSWORD"),  # libpq reads these environment variables.
    *("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"),
    # botocore reads these environment variables.
    *("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    *("OMP_NUM_THREADS", "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY"),
}
COMPOSE_ONLY = {"RNNLM_IMAGE", "RNNLM_DOMAIN", "RNNLM_TLS", "RNNLM_MODEL", "RNNLM_WORKERS", "RNNLM_RUNS_PER_WORKER"}


def used_names() -> set[str]:
    """Return every environment variable in a file of deploy/."""
    return {name for path in FILES for name in NAME.findall(path.read_text(encoding="utf-8"))}


def table_names() -> set[str]:
    """Return the environment variables in the tables of the page about deployment."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in NAME.findall(row.split("|")[1])}


def test_the_page_explains_every_variable_that_deploy_uses_and_no_other() -> None:
    assert table_names() == used_names()


def known_to_its_tool(name: str) -> bool:
    if name in OTHER_TOOLS | COMPOSE_ONLY:
        return True
    if name.startswith("PREFECT_INTEGRATIONS_KUBERNETES_"):
        settings = pytest.importorskip("prefect_kubernetes.settings", reason="extra team").KubernetesSettings()
        group, _, field = name.removeprefix("PREFECT_INTEGRATIONS_KUBERNETES_").lower().partition("_")
        return field in type(getattr(settings, group)).model_fields
    if name.startswith("PREFECT_"):
        return hasattr(prefect.settings, name)
    if name.startswith("MLFLOW_"):
        return hasattr(mlflow.environment_variables, name) or name in ("MLFLOW_TRACKING_URI",)
    code = [path.read_text(encoding="utf-8") for folder in ("rnnlm", "flows") for path in (ROOT / folder).rglob("*.py")]
    return any(f'"{name}"' in text for text in code)


@pytest.mark.parametrize("name", sorted(used_names()))
def test_a_variable_means_something_to_the_tool_that_gets_it(name: str) -> None:
    assert known_to_its_tool(name)


def test_the_example_has_every_variable_of_the_compose_file_and_no_password() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\$\{(\w+)", text))
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(given) == wanted
    assert [name for name in given if re.search("PASSWORD|SECRET|TOKEN|AUTH", name) and given[name]] == []
    assert set(re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|TOKEN|AUTH)\w*)(?!:\?)\}", text)) == set()


def test_a_secret_of_the_manifests_is_a_variable_of_the_example() -> None:
    example = (DEPLOY / ".env.example").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in [*MANIFESTS, DEPLOY / "work-pool.json"]]
    keys = {key for text in texts for key in re.findall(r'name"?: "?rnnlm"?,\s*"?key"?: "?(\w+)', text)}
    assert keys
    assert [key for key in keys if f"\n{key}=" not in example] == []


def test_every_file_names_the_image_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    named = {path.name: set(IMAGE.findall(path.read_text(encoding="utf-8"))) for path in FILES}
    assert set().union(*named.values()) == {f"registry.example.org/rnnlm:{version}"}


def test_every_image_has_an_exact_tag() -> None:
    images = [image for path in MANIFESTS for image in re.findall(r"image: (\S+)", path.read_text(encoding="utf-8"))]
    images += [service["image"] for service in COMPOSE.values()]
    assert [image for image in images if not re.search(r":[\w.-]*\d[\w.-]*$|^\$\{RNNLM_IMAGE:\?\}$", image)] == []


def test_compose_and_kubernetes_start_the_servers_with_the_same_commands() -> None:
    for service in ("prefect", "mlflow"):
        assert containers(service)[service]["command"] == COMPOSE[service]["command"]
    assert containers("mlflow")["bucket"]["command"] == COMPOSE["bucket"]["command"]


def containers(manifest: str) -> dict[str, dict[str, Any]]:
    """Return the containers of a manifest. The keys are the containers' names."""
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / f"{manifest}.yaml").read_text(encoding="utf-8"))
    pods = [document["spec"]["template"]["spec"] for document in documents if "template" in document.get("spec", {})]
    return {one["name"]: one for pod in pods for one in [*pod.get("initContainers", []), *pod["containers"]]}


def test_every_container_that_stays_has_probes_and_resources_and_no_privileges() -> None:
    for manifest in ("postgres", "s3", "prefect", "mlflow", "worker", "serve"):
        for name, container in containers(manifest).items():
            assert set(container["resources"]) == {"requests", "limits"}, name
            assert name in ("bucket", "deploy") or "livenessProbe" in container, name
            if IMAGE.fullmatch(container["image"]):
                assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_every_compose_service_has_a_health_check_or_ends() -> None:
    for name, service in COMPOSE.items():
        ends = service["restart"] == "on-failure"
        assert service["healthcheck"] == {"disable": True} if ends else "test" in service["healthcheck"], name


def environment_of(service: str) -> list[dict[str, str]]:
    """Return a server's environment variables in the compose file and in the manifests.

    Secrets are given as key names.
    """
    manifest = {
        one["name"]: one.get("value", "") or one["valueFrom"]["secretKeyRef"]["key"]
        for one in containers(service)[service]["env"]
    }
    return [COMPOSE[service]["environment"], manifest]


def test_only_the_proxy_can_be_reached() -> None:
    assert [name for name, service in COMPOSE.items() if service.get("ports")] == ["proxy"]
    assert [name for name, service in COMPOSE.items() if {"network_mode", "privileged"} & service.keys()] == []
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    sites = dict(re.findall(r"^(\S+) \{\n\timport tls\n\treverse_proxy (\S+)\n\}", text, re.MULTILINE))
    guarded = {"prefect": "prefect:4200", "mlflow": "mlflow:5000", "rnnlm": "serve:8000"}
    assert sites == {f"{name}.{{$RNNLM_DOMAIN}}": server for name, server in guarded.items()}
    assert text.count("reverse_proxy") == len(sites)  # There is no other site, in particular none for every host name.

    documents = [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    assert {one["spec"].get("type", "ClusterIP") for one in documents if one["kind"] == "Service"} == {"ClusterIP"}
    [ingress] = [one["spec"] for one in documents if one["kind"] == "Ingress"]
    backends = {rule["host"]: rule["http"]["paths"][0]["backend"]["service"] for rule in ingress["rules"]}
    reached = {host: f"{to['name']}:{to['port']['number']}" for host, to in backends.items()}
    assert reached == {f"{name}.example.org": server for name, server in guarded.items()}
    assert set(ingress["tls"][0]["hosts"]) == set(reached)


def test_each_server_asks_for_its_secret_and_answers_no_other_site() -> None:
    for variables in environment_of("prefect"):
        assert "PREFECT_SERVER_API_AUTH_STRING" in variables["PREFECT_SERVER_API_AUTH_STRING"]
        assert re.fullmatch(r"https://prefect\.[^,*]+", variables["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"])
    for variables in environment_of("mlflow"):
        assert re.fullmatch(r"mlflow:5000,mlflow\.[^,*]+", variables["MLFLOW_SERVER_ALLOWED_HOSTS"])
        assert re.fullmatch(r"https://mlflow\.[^,*]+", variables["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"])
        assert "MLFLOW_FLASK_SERVER_SECRET_KEY" in variables["MLFLOW_FLASK_SERVER_SECRET_KEY"]
    assert "--app-name=rnnlm" in containers("mlflow")["mlflow"]["command"]
    for variables in environment_of("serve"):
        assert "RNNLM_SERVE_TOKEN" in variables["RNNLM_SERVE_TOKEN"]


def test_a_kubernetes_flow_run_cannot_change_its_job() -> None:
    template = json.loads((DEPLOY / "work-pool.json").read_text(encoding="utf-8"))
    # With `env` in the template, Prefect would merge a run's own `env` into it.
    assert "env" not in template["job_configuration"]
    assert {"command", "env", "args", "image", "namespace"}.isdisjoint(template["variables"]["properties"])
    placeholders = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))
    # All placeholders must be declared, because a run could also set undeclared variables.
    assert placeholders <= set(template["variables"]["properties"])


def test_the_security_page_tells_what_protects_each_server() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## A team's servers")[2].partition("\n## ")[0]
    for server in ("Prefect", "MLflow", "rnnlm serve", "PostgreSQL", "S3"):
        assert server in text, server
