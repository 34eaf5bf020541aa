# Everything a newcomer needs: make run, make test. `make setup` is the environment alone, compiled as it is imported.
# The first of these that can be used makes .venv, which then keeps it. PYTHON=/path/to/python names another.
PYTHON ?= python3.13 python3.12 python3.11 python3
USABLE := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
VENV := .venv
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

TEST := $(VENV)/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: setup run up test test-long test-all test-nights test-slow test-services test-ray lint docs

setup: $(STAMP)

.DELETE_ON_ERROR:
$(VENV)/bin/python:
	@for name in $(PYTHON); do \
		if $$name -c '$(USABLE)' 2> /dev/null; then echo "$$name -m venv $(VENV)"; exec $$name -m venv $(VENV); fi; \
	done; \
	echo "Python 3.11, 3.12 or 3.13 with its module venv is needed, and none was found as: $(PYTHON)" >&2; \
	echo "  Debian, Ubuntu:  sudo apt install python3 python3-venv" >&2; \
	echo "  Fedora:          sudo dnf install python3.13" >&2; \
	echo "  Homebrew:        brew install python@3.13" >&2; \
	exit 1

$(STAMP): | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable ".[dev]"
	rm -f $(VENV)/.installed-*
	touch $@

run: setup
	$(VENV)/bin/rnnlm run

up: setup
	$(VENV)/bin/rnnlm up --detach

test: setup
	$(TEST) -m "not long and not slow and not services" $(PYTEST_OPTIONS)

test-long: setup # whole flows, killed processes, servers under load
	$(TEST) -m "long and not slow and not services" $(PYTEST_OPTIONS)

test-all: setup # the quick and the long tests in one run, as CI runs them: what they share is imported and built once
	$(TEST) -m "not slow and not services" $(PYTEST_OPTIONS)

test-nights: setup # a night with every part killed, a power cut, the wheel, each extension deleted: the slow tests that CI runs
	$(TEST) -m slow tests/flows/service tests/test_wheel.py tests/test_extensions.py

test-slow: setup
	$(VENV)/bin/python -m pytest -m slow

test-services: setup # PostgreSQL, S3, both servers, two workers; installs PostgreSQL by apt-get if it is missing and we are root
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,services]"
	$(VENV)/bin/python -m pytest -m services tests/services

test-ray: setup # a Ray cluster of two nodes on this machine; installs the extra `ray`
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,ray]"
	$(VENV)/bin/python -m pytest -m slow tests/flows/distributed/test_ray.py tests/rnnlm/extensions/distributed/test_ray_launcher.py

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/mypy

docs: setup
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
