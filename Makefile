# Needs Python 3.11 or newer and make. Every target sets up .venv by itself, again when pyproject.toml changes;
# the demo with less than the tests need.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
SERVING := .venv/.serving

.PHONY: help test check bench demo docs study browser clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,all]'
	@touch $@ $(SERVING)

$(SERVING): pyproject.toml
	@echo 'installing what the demo needs into .venv'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[serve]'
	@touch $@

test: $(READY) ## run the tests
	$(BIN)/pytest -n 2 --dist loadfile

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

clean: ## remove all that make made, .venv too
	rm -rf .venv site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
