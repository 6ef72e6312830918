# Needs Python 3.11 or newer and make. Every target sets up .venv by itself, again when pyproject.toml changes;
# the demo with less than the tests need.
PYTHON ?= python3
# Tests start many processes, which must not compile all modules again.
export PYTHONDONTWRITEBYTECODE :=
# Processes that run tests, one file at a time, in the order of tests/conftest.py.
WORKERS ?= 2
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
BIN := .venv/bin
READY := .venv/.ready
SERVING := .venv/.serving
TRIAL := .venv/trial
# Methods and credit, then from a log to a report, then the store and the service: about 100 seconds of processor time.
QUICK := project/test_architecture interleaving/test_golden test_spec kernels/test_randomness \
	log/test_reading decode tally/test_tally stats/test_compare stats/test_consistency analysis/test_analyze \
	report/test_health report/test_text experiment store/test_store server/test_service

.PHONY: help test quick coverage check bench demo docs study browser release clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs,integration,all]'
	@touch $@ $(SERVING)

$(SERVING): pyproject.toml
	@echo 'installing what the demo needs into .venv'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[serve]'
	@touch $@

test: $(READY) ## run the tests
	$(BIN)/pytest $(PARALLEL)

quick: $(READY) ## run the tests that matter most while you edit, in about a minute
	$(BIN)/pytest $(PARALLEL) $(wildcard $(QUICK:%=tests/%.py) $(QUICK:%=tests/%))

coverage: $(READY) ## run the tests, and list the lines that none of them runs
	$(BIN)/pytest $(PARALLEL) --cov --cov-report=term-missing

check: $(READY) ## lint, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY) ## measure speed
	$(BIN)/python -m benchmarks

demo: $(SERVING) ## a search engine, people, the live dashboard
	$(BIN)/interleaf demo

# The variable keeps the theme from telling of its successor.
docs: $(READY) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

study: $(READY) ## run the slow studies
	$(BIN)/pytest -m slow

browser: ## install Debian's chromium for the page tests, where that is possible
	@if command -v chromium; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium >/dev/null; } \
		|| echo 'chromium could not be installed'; \
	else echo 'no chromium: installing it takes root and apt-get'; fi

release: $(READY) ## build the source archive and the wheel into dist/, and try the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv --clear $(TRIAL)
	$(TRIAL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(TRIAL) && bin/interleaf --version \
		&& bin/interleaf simulate --impressions 2000 --out log.parquet && bin/interleaf analyze log.parquet
	@echo 'dist/ is ready; this publishes it: $(BIN)/twine upload dist/*'

clean: ## remove all that make made, .venv too
	rm -rf .venv site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
