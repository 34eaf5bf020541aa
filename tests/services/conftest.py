"""Fixtures for the requirements of `make test-services`: the `services` extra and PostgreSQL."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.services.postgres_server import server_programs


@pytest.fixture(scope="session", autouse=True)
def services_extra() -> None:
    """Skip the tests if the `services` extra is missing, because any pytest command may collect them."""
    for module in ("moto", "psycopg2", "prefect_kubernetes", "kubernetes_validate"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is missing: make test-services installs it")


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """Return the folder of initdb and postgres. If they are missing, install them if this user is permitted to."""
    if (found := server_programs()) is not None:
        return found
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("PostgreSQL is missing: apt-get install postgresql postgresql-contrib, as root")
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "postgresql", "postgresql-contrib"]):
        subprocess.run(["apt-get", "--quiet", *command], check=True, stdout=subprocess.DEVNULL)
    found = server_programs()
    assert found is not None
    return found
