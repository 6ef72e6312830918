# Needs Python 3.11 or newer and make. Every target sets up .venv by itself, again when pyproject.toml changes;
# the demo, quick and release with less than all tests need.
PYTHON ?= python3
# Tests start many processes, which must not compile all modules again.
export PYTHONDONTWRITEBYTECODE :=
# Processes that run tests, in the groups and the order of tests/conftest.py: more than two cores, because tests wait
# for servers, browsers and Spark. Each takes 1.5 to 2 GB of memory.
WORKERS ?= 4
PARALLEL := -n $(WORKERS) --no-loadscope-reorder
BIN := .venv/bin
READY := .venv/.ready
DEV := .venv/.dev
SERVING := .venv/.serving
TRIAL := .venv/trial
# Methods and credit, then from a log to a report, then the store and the service: about 100 seconds of processor time.
QUICK := project/test_architecture interleaving/test_golden test_spec kernels/test_randomness \
	log/test_reading decode tally/test_tally stats/test_compare stats/test_consistency analysis/test_analyze \
	report/test_health report/test_text experiment store/test_store server/test_service

.PHONY: help test quick coverage check bench demo demo-proxy docs study browser promtool engines nodes clients \
	typescript nextjs release clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs,integration,all]'
	@touch $@ $(DEV) $(SERVING)

$(DEV): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,all]'
	@touch $@ $(SERVING)

$(SERVING): pyproject.toml
	@echo 'installing what the demo needs into .venv'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[serve]'
	@touch $@

test: $(READY) ## run the tests
	$(BIN)/pytest $(PARALLEL)

quick: $(DEV) ## run the tests that matter most while you edit, in about a minute
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

demo-proxy: $(SERVING) nodes ## a real OpenSearch, the proxy in front of it, people, the live dashboard
	@$(BIN)/python -m tests.engines.demo_proxy

# The variable keeps the theme from telling of its successor.
docs: $(READY) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

study: $(READY) ## run the slow studies
	$(BIN)/pytest -m slow

# $(call debian,PROGRAM,PACKAGE): install Debian's package unless the program is there, where that is possible.
define debian
	@if command -v $(1); then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(2) >/dev/null; } \
		|| echo '$(2) could not be installed'; \
	else echo 'no $(1): installing it takes root and apt-get'; fi
endef

browser: ## install Debian's chromium for the page tests, where that is possible
	$(call debian,chromium,chromium)

promtool: ## install Debian's prometheus for the tests of alert rules, where that is possible
	$(call debian,promtool,prometheus)

# Built again when a program or a version changes; the first time downloads 170 MB into Maven's own folder, and 104 MB
# into node_modules.
ENGINES := tests/engines
CLIENTS := $(ENGINES)/clients
engines: nodes clients ## build real search engines, clients and front ends for the tests, where Java, Maven and Node are

nodes:
	@if command -v javac >/dev/null && command -v mvn >/dev/null; then \
		$(MAKE) --no-print-directory $(ENGINES)/target/built || echo 'the engines could not be built: their tests are skipped'; \
	else echo 'no engines for the tests: they need a JDK and Maven (Debian: default-jdk-headless, maven)'; fi

clients:
	@if command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory $(CLIENTS)/target/built || echo 'the front ends could not be built: their tests are skipped'; \
	else echo 'no front ends for the tests: they need Node (Debian: nodejs, npm)'; fi

$(ENGINES)/target/built: $(wildcard $(ENGINES)/pom.xml $(ENGINES)/*/pom.xml $(ENGINES)/*/*.java)
	cd $(ENGINES) && mvn -B -q -T 2 -Dstyle.color=never -Dmaven.artifact.threads=10 compile
	@mkdir -p $(@D) && touch $@

$(CLIENTS)/target/built: $(CLIENTS)/package-lock.json $(wildcard $(CLIENTS)/*.js)
	cd $(CLIENTS) && npm ci --silent --ignore-scripts && npm run --silent build
	@touch $@

typescript: $(READY) ## check, test and build the TypeScript package, where there is Node
	@if node -e 'process.exit(Number(parseInt(process.versions.node) < 20))' 2>/dev/null && command -v npm >/dev/null; then \
		cd clients/typescript && if npm ci --no-progress; then npm run check && npm test && npm run build; \
		else echo 'npm could not install: the TypeScript package is not tested'; fi; \
	else echo 'no Node 20 with npm: the TypeScript package is not tested'; fi

nextjs: typescript ## build the Next.js example, and test it in a browser
	cd clients/typescript/examples/nextjs && npm ci --no-progress && npm run build
	$(BIN)/pytest tests/client/test_nextjs_shop.py

release: $(DEV) ## build the source archive and the wheel into dist/, and try the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv --clear $(TRIAL)
	$(TRIAL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(TRIAL) && bin/interleaf --version \
		&& bin/interleaf simulate --impressions 2000 --out log.parquet && bin/interleaf analyze log.parquet
	@echo 'dist/ is ready; this publishes it: $(BIN)/twine upload dist/*'

clean: ## remove all that make made, .venv too
	rm -rf $(ENGINES)/target $(ENGINES)/*/target $(CLIENTS)/node_modules
	rm -rf .venv site dist clients/typescript/dist clients/typescript/node_modules \
		clients/typescript/examples/nextjs/node_modules clients/typescript/examples/nextjs/.next .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
