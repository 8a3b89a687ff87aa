# Everything a fresh clone needs, with only Python and make on the machine.
# `make demo` runs the main job; `make test` and `make lint` are what CI runs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST ?= -n 2 --dist worksteal

.PHONY: catalogues demo test test-long pictures retest test-markets laws torture lint docs bench bench-paper format system-packages clean

demo: $(VENV)/.demo
	$(BIN)/dispatcher demo build/demo

test: $(VENV)/.lint system-packages
	$(BIN)/python -m pytest $(PYTEST) --durations=10

# Up to three tests that failed in the last run, three times more by themselves. One that
# fails again has a fault; one that does not is printed as flaky, and is to be mended.
FAILED = .pytest_cache/v/cache/lastfailed
retest:
	@$(BIN)/python -c 'import json, sys; failed = list(json.load(open("$(FAILED)"))); \
	  sys.exit(f"{len(failed)} tests failed" if not 0 < len(failed) <= 3 else None)'
	mkdir -p build && cp $(FAILED) build/flaky.json
	for go in 1 2 3; do \
	  cp build/flaky.json $(FAILED) && \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures=none || exit 1; \
	done
	@echo "FLAKY: failed once and passed three times:" && cat build/flaky.json

# The task page's languages: new texts come into each catalogue, to be translated. Another
# language begins with `.venv/bin/python -m dispatcher.surfaces.taskpage.catalogues fr`.
catalogues: $(VENV)/.lint
	$(BIN)/python -m dispatcher.surfaces.taskpage.catalogues

# Against real market servers, each installed once into an environment under build/. The
# long forms: python -m tests.markets.turkle_run DIR, and mturk_run, checkins_run likewise
# and python -m tests.markets.mturk_storm (1,000 prescriptions, or pieces of work, each).
test-markets: $(VENV)/.lint
	$(BIN)/python -m pytest tests/markets -m markets --durations=10

# Every antichain on up to five entries with all workers and copies, and 10,000 random ones
# on six and seven, each tried out: half an hour on one core. `make test` takes a part.
# And every page judged by axe-core at each size both in light and in dark.
laws: $(VENV)/.lint
	SPARSI_LAWS=full $(BIN)/python -m pytest tests/unit/policies/solvers/test_antichains.py \
	  tests/e2e/test_accessibility.py

# The long forms of test_killed, test_daemon_races and test_random_walk, on each database.
# Walks go in legs and kills in rounds, and can be broken off: build/walk-*.json and
# build/torture-*.json say how far they are, and the next `make torture` goes on from
# there. Remove the files to begin anew.
KILLS  ?= 1000
RACES  ?= 1000
STEPS  ?= 10000
WALK   ?= 1000000
torture: $(VENV)/.lint system-packages
	$(BIN)/python -m tests.e2e.torture.walking --steps $(WALK) --store memory \
	  --state build/walk-memory.json
	for store in sqlite postgresql; do \
	  $(BIN)/python -m tests.e2e.torture.races --races $(RACES) --store $$store && \
	  $(BIN)/python -m tests.e2e.torture.walking --steps $(STEPS) --store $$store \
	    --state build/walk-$$store.json && \
	  $(BIN)/python -m tests.e2e.torture --kills $(KILLS) --store $$store \
	    --state build/torture-$$store.json || exit 1; \
	done
	$(BIN)/python -m tests.e2e.torture --kills $(KILLS) --store postgresql --servers 3 \
	  --state build/torture-servers.json

# The whole of what `make test` takes a few examples of: the API against its description.
test-long: $(VENV)/.lint system-packages
	$(BIN)/python -m pytest $(PYTEST) -m long
	SPARSI_API_EXAMPLES=50 $(BIN)/python -m pytest tests/integration/test_api_fuzzing.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Every screen of the console in docs/pictures/console: light and dark, full and empty.
pictures: $(VENV)/.lint system-packages
	SPARSI_PICTURES=docs/pictures/console $(BIN)/python -m pytest tests/e2e/test_console_pictures.py

# The pages of docs/ as a site, in build/site: open build/site/index.html. Without network.
docs: $(VENV)/.lint
	$(BIN)/python -m mkdocs build --strict

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
	$(BIN)/python -m policies.solvers.kernels
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

bench-paper: $(VENV)/.lint
	$(BIN)/python -m benchmarks.paper

clean:
	rm -rf $(VENV) build dist
