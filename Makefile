# Everything a fresh clone needs, with only Python and make on the machine.
# `make demo` runs the main job; `make test` and `make lint` are what CI runs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST ?= -n 2

.PHONY: demo test torture lint bench bench-paper format system-packages clean

demo: $(VENV)/.demo
	$(BIN)/dispatcher demo --dir build/demo

test: $(VENV)/.lint system-packages
	$(BIN)/python -m pytest $(PYTEST) --durations=10

# The long form of tests/e2e/test_killed.py: 50 kills on each database.
torture: $(VENV)/.lint system-packages
	$(BIN)/python -m tests.e2e.torture --kills 50
	$(BIN)/python -m tests.e2e.torture --kills 50 --store postgresql

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.lint
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[lint]'
	touch $@

# The suite starts a PostgreSQL server and a browser of its own; this brings the
# programs where they are missing and we may install them.
system-packages:
	@if ! command -v chromium >/dev/null || ! PATH="$$PATH:/usr/sbin" command -v sshd >/dev/null || ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql chromium openssh-server >/dev/null; \
	  else \
	    echo "make test needs PostgreSQL's server programs, chromium and sshd: install them (apt-get install postgresql chromium openssh-server) and repeat" >&2; exit 2; \
	  fi; \
	fi

clean:
	rm -rf $(VENV) build dist
