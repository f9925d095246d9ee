# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The build backend warns of every editable installation.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check
export DAGSTER_DISABLE_TELEMETRY := 1
export GX_ANALYTICS_ENABLED := false
# pip would compile all modules of all packages (--no-compile): those in use are compiled with the replay engine when both are first loaded, here
# at the end of the installation, and kept, also where a container says otherwise.
PRECOMPILE := $(BIN)/python -m orchestration.precompile
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo ui fleet site live test test-all test-browser test-fleet mutate coverage lint lint-style lint-types lint-imports lint-sql lint-prose golden bench bench-replay constraints docs readme screenshots check-readme clean

help: ## list the targets; CONTRIBUTING.md has those of developers
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The pip that comes with CPython 3.11 takes more than twice as long to resolve the dependencies as the pinned one.
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "bellwether needs CPython 3.11 or newer; there is no $(PYTHON). Install it, or: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "bellwether needs CPython 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Use: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv or pip; install them (Debian: apt install python3-venv)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -q -c constraints.txt --upgrade pip

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing bellwether into $(VENV) (a minute or two)"
	@$(PIP) install -q --no-compile -c constraints.txt -e .
	@$(PRECOMPILE)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing bellwether and its test tools into $(VENV) (a minute or two)"
	@$(PIP) install -q --no-compile -c constraints.txt -e '.[dev,s3]'
	@$(PRECOMPILE)
	@touch $@ $(VENV)/.installed

setup: $(VENV)/.installed ## make the virtual environment and install the pinned dependencies

setup-dev: $(VENV)/.dev # the same, with test tools

demo: setup ## run everything in the sandbox and print the leaderboard; no key, no network
	@$(BIN)/bellwether demo

ui: setup ## serve Dagster's UI with its daemon on http://127.0.0.1:3000
	@$(BIN)/bellwether ui

fleet: setup-dev ## start Postgres, Redis, an object store, a UI and two workers on loopback, run the demo on them and compare it
	@$(BIN)/python -m deploy.fleet

site: setup ## build the static site of the published warehouse and serve it on http://127.0.0.1:8400
	@$(BIN)/bellwether site --serve

live: setup ## the same graph on the real venue: the last 3 days, forecasters that need no key
	@BELLWETHER_WORLD=live $(BIN)/bellwether pull
	@BELLWETHER_WORLD=live $(BIN)/bellwether release kalshi-live

PYTEST := $(BIN)/python -m pytest

test: setup-dev ## run the tests of a change: six minutes on two quiet cores
	@$(PYTEST) -n 2 --dist worksteal -m "not nightly and not browser and not fleet" --budgets

test-all: setup-dev # run all tests, also the nightly ones: process kills, real recordings, Monte Carlo, the fleet, the browser
	@NIGHTLY=1 $(PYTEST) -n 2 --dist worksteal -m "not browser and not fleet"
	@NIGHTLY=1 $(PYTEST) -q -m fleet tests/fleet
	@NIGHTLY=1 $(PYTEST) -q -m browser tests

test-browser: setup-dev # open the main pages of the site in Chromium
	@$(PYTEST) -q -m "browser and not nightly" tests/browser

test-fleet: setup-dev # run two workers on Postgres, Redis and an object store, kill one, and compare the tables
	@$(PYTEST) -q -m "fleet and not nightly" tests/fleet

mutate: setup-dev # change constants and comparisons one at a time, and list those that no fast test catches
	@$(BIN)/python -m tests.mutations

TESTS ?= tests

golden: setup-dev # build the demo home, rewrite the digests of tests/golden and print what changed
	@$(BIN)/python -m tests.golden

coverage: setup-dev # measure what the tests cover, in htmlcov/; TESTS=tests/lake for some
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html $(TESTS)

lint: setup-dev # check style, types, SQL, prose and the direction of imports
	@$(MAKE) -s -k -j 4 lint-style lint-types lint-imports lint-sql lint-prose

# The tools of lint run in parallel: each prints its findings in one piece, and one failure hides no other.
shown = found=$$( { $(1); } 2>&1 ); failed=$$?; printf "%s\n" "$$found"; exit $$failed

lint-style:
	@$(call shown,$(BIN)/ruff check . && $(BIN)/ruff format --check .)

lint-types:
	@$(call shown,$(BIN)/mypy)

lint-imports:
	@$(call shown,$(BIN)/lint-imports)

lint-sql:
	@$(call shown,$(BIN)/sqlfluff lint sql)

lint-prose:
	@$(call shown,$(BIN)/python .ci/prose.py)

bench: setup-dev # measure speed and memory, as ratios
	@$(BIN)/python -m benchmarks

bench-replay: setup-dev # compare the replay engine with its peers, as ratios; about ten minutes
	@$(BIN)/python -m benchmarks._replay --write

constraints: setup-dev # pin the newest versions that fit pyproject.toml
	@$(BIN)/pip-compile -q --upgrade --all-extras --strip-extras --allow-unsafe --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o constraints.txt pyproject.toml
	@sed -i.tmp '/^bellwether @ /d' constraints.txt && rm constraints.txt.tmp

docs: setup-dev # build the documentation as a site in build/docs; no network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict && echo "build/docs/index.html"

readme: setup-dev # write the tables and pictures of the README from the demo, which it runs first
	@$(BIN)/bellwether demo > /dev/null
	@$(BIN)/python -m tests.readme

screenshots: setup-dev # take pictures of one page of every kind in Chromium, and a contact sheet, in build/screenshots/
	@$(BIN)/python -m tests.browser.screenshots

check-readme: setup-dev # run the demo in a folder of its own and compare the README's tables with what it prints
	@NIGHTLY=1 README_HOME=$${README_HOME:-$$(mktemp -d)} $(BIN)/python -m pytest -q tests/unit/docs/test_pages.py

clean: # remove the environments, not your data
	@rm -rf $(VENV)
