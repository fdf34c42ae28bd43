# Everything sets itself up: `make demo` needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SLOW_WORKERS ?= 2
FUZZ_FILES ?= 20000
ROAD_LOGS ?= 500

.PHONY: help lint demo docs test test-all check format lock bench audit faults fuzz clean

help:
	@echo "make demo      set up, and release and verify an invented log"
	@echo "make docs      build the site of the documents in site/"
	@echo "make test      the quick tests"
	@echo "make test-all  all tests, the slow ones too"
	@echo "make check     format, lint, types, tests"
	@echo "make bench     the benchmarks"
	@echo "make audit     attack every mechanism, and broken twins of them"
	@echo "make faults    kill and starve releases and series, damage ledgers, look at what is left"
	@echo "make fuzz      hostile logs, files, parameters and bundles by the thousand; one log on every road"

$(VENV)/run: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("murmurlog needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev: $(VENV)/run requirements-dev.txt
	$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

# For the slow tests; without a Java runtime on the machine they skip, and say so.
$(VENV)/spark: $(VENV)/dev requirements-spark.txt
	$(PIP) install --require-hashes --no-deps -r requirements-spark.txt
	@touch $@

# For the tests in a browser; without one on the machine they skip, and say so.
$(VENV)/browser: $(VENV)/dev requirements-browser.txt
	$(PIP) install --require-hashes -r requirements-browser.txt
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && \
	apt-get install -y --no-install-recommends chromium fonts-noto-core fonts-noto-cjk; } || \
	echo "there is no chromium: the tests in a browser will skip"
	@touch $@

# For the tests of object stores; an environment of its own, since moto needs older packages than we do.
$(VENV)/moto/made: $(VENV)/run requirements-moto.txt
	$(PYTHON) -m venv $(VENV)/moto
	$(VENV)/moto/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements-moto.txt
	@touch $@

$(VENV)/docs: $(VENV)/run requirements-docs.txt
	$(PIP) install --require-hashes -r requirements-docs.txt
	@touch $@

demo: $(VENV)/run
	rm -rf demo
	$(BIN)/murmurlog demo --out demo
	@echo "look at it: $(BIN)/murmurlog serve demo/bundle"

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "look at it: site/index.html"

test: $(VENV)/dev
	$(BIN)/python -m pytest -n 2

test-all: $(VENV)/spark $(VENV)/browser $(VENV)/docs $(VENV)/moto/made
	$(BIN)/python -m pytest -n $(SLOW_WORKERS) -m "" -rs

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

format: $(VENV)/dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/dev
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/mechanisms.py
	$(BIN)/python benchmarks/set_union.py
	$(BIN)/python benchmarks/postgres.py
	$(BIN)/python benchmarks/page.py

audit: $(VENV)/run
	$(BIN)/python audits/run.py

faults: $(VENV)/run
	$(BIN)/python audits/faults.py
	$(BIN)/python audits/series_faults.py

fuzz: $(VENV)/dev
	$(BIN)/python audits/fuzz.py
	$(BIN)/python audits/parameters.py
	$(BIN)/python audits/reader_fuzz.py --files $(FUZZ_FILES)
	$(BIN)/python audits/roads.py --logs $(ROAD_LOGS)

# New locks, with hashes and without the name of any index.
LOCK := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock: $(VENV)/dev
	$(PIP) install pip-tools
	printf 'flit_core>=3.11,<4\n' | $(LOCK) --output-file requirements.txt pyproject.toml -
	$(BIN)/python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['dev']))" \
	| $(LOCK) --constraint requirements.txt --output-file requirements-dev.txt pyproject.toml -
	$(BIN)/python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['browser']))" \
	| $(LOCK) --constraint requirements-dev.txt --output-file requirements-browser.txt -
	$(BIN)/python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['docs']))" \
	| $(LOCK) --constraint requirements-dev.txt --output-file requirements-docs.txt -
	$(BIN)/python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']['moto']))" \
	| $(LOCK) --output-file requirements-moto.txt -

clean:
	rm -rf $(VENV) demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
