# Everything a newcomer needs: make run, make test. `make setup` is the environment alone, compiled as it is imported.
# `make run` and `make up` install the program, as `make program` does; the others add what developing needs to the same .venv.
# The first of these that can be used makes .venv, which then keeps it. PYTHON=/path/to/python names another.
PYTHON ?= python3.14 python3.13 python3.12 python3.11 python3
USABLE := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
VENV := .venv
# TORCH=cpu or TORCH=cuda chooses the build of PyTorch; without it, the NVIDIA driver does.
SUM := $(shell (cat pyproject.toml constraints.txt; echo $(TORCH)) | cksum | cut -d' ' -f1)
PROGRAM := $(VENV)/.program-$(SUM)
TOOLS := $(VENV)/.tools-$(SUM)
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable

TEST := $(VENV)/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: setup program run up test test-long test-all test-nights test-slow test-services test-ray lint docs

setup: $(TOOLS)

program: $(PROGRAM)

.DELETE_ON_ERROR:
$(VENV)/bin/python:
	@for name in $(PYTHON); do \
		if $$name -c '$(USABLE)' 2> /dev/null; then echo "$$name -m venv $(VENV)"; exec $$name -m venv $(VENV); fi; \
	done; \
	if uv --version > /dev/null 2>&1; then \
		echo "uv venv --python 3.13 $(VENV)"; exec uv venv --quiet --seed --python 3.13 $(VENV); \
	fi; \
	echo "Python 3.11, 3.12, 3.13 or 3.14 with its module venv is needed, and none was found as: $(PYTHON)" >&2; \
	echo "  Debian, Ubuntu:  sudo apt install python3 python3-venv" >&2; \
	echo "  Fedora:          sudo dnf install python3.13" >&2; \
	echo "  Homebrew:        brew install python@3.13" >&2; \
	echo "  older systems:   install uv, with which make gets an interpreter" >&2; \
	exit 1

$(TOOLS): EXTRAS = [dev]
$(PROGRAM) $(TOOLS): | $(VENV)/bin/python
	$(VENV)/bin/python deploy/pytorch_build.py $(TORCH)
	$(INSTALL) ".$(EXTRAS)"
	rm -f $(VENV)/.program-* $(VENV)/.tools-*
	touch $(PROGRAM) $@

run: $(PROGRAM)
	$(VENV)/bin/rnnlm run

up: $(PROGRAM)
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
	$(INSTALL) ".[dev,services]"
	$(VENV)/bin/python -m pytest -m services tests/services

test-ray: setup # a Ray cluster of two nodes on this machine; installs the extra `ray`
	$(INSTALL) ".[dev,ray]"
	$(VENV)/bin/python -m pytest -m slow tests/flows/distributed/test_ray.py tests/rnnlm/extensions/distributed/test_ray_launcher.py

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/mypy

docs: setup
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
