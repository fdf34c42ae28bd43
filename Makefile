# Everything sets itself up: `make demo` needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Locks are complete: an installation resolves nothing, neither requirements nor tools to build with.
INSTALL := python -m pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation
SLOW_WORKERS ?= 2
FUZZ_FILES ?= 20000
FUZZ_FRAMES ?= 20000
FUZZ_LOGS ?= 500

.PHONY: help lint demo docs test test-all check format lock bench audit faults fuzz papers clean

help:
	@echo "make demo      set up, and release and verify an invented log"
	@echo "make docs      build the site of the documents in site/"
	@echo "make test      the quick tests"
	@echo "make test-all  all tests, the slow ones too"
	@echo "make check     format, lint, types, tests"
	@echo "make bench     the benchmarks"
	@echo "make audit     attack every mechanism, and broken twins of them"
	@echo "make papers    the tables of the papers, computed again"
	@echo "make faults    kill and starve releases and series, damage ledgers, look at what is left"
	@echo "make fuzz      hostile logs, files, frames, parameters and bundles by the thousand; products of options in any partitions"

$(VENV)/run: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("murmurlog needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(INSTALL) --require-hashes -r requirements.txt
	$(BIN)/$(INSTALL) -e .
	@touch $@

$(VENV)/dev: $(VENV)/run requirements-dev.txt
	$(BIN)/$(INSTALL) --require-hashes -r requirements-dev.txt
	@touch $@

# For the slow tests; without a Java runtime on the machine they skip, and say so.
$(VENV)/spark: $(VENV)/dev requirements-spark.txt
	$(BIN)/$(INSTALL) --require-hashes -r requirements-spark.txt
	@touch $@

# For the tests in a browser; without one on the machine they skip, and say so.
$(VENV)/browser: $(VENV)/dev requirements-browser.txt
	$(BIN)/$(INSTALL) --require-hashes -r requirements-browser.txt
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && \
	apt-get install -y --no-install-recommends chromium fonts-noto-core fonts-noto-cjk; } || \
	echo "there is no chromium: the tests in a browser will skip"
	@touch $@

# For the tests of object stores; an environment of its own, since moto needs older packages than we do.
$(VENV)/moto/made: $(VENV)/run requirements-moto.txt
	$(PYTHON) -m venv $(VENV)/moto
	$(VENV)/moto/bin/$(INSTALL) --require-hashes -r requirements-moto.txt
	@touch $@

# For make lock; an environment of its own, since it needs a newer pip than Python brings.
$(VENV)/lock/ready: $(VENV)/run requirements-lock.txt
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/$(INSTALL) --require-hashes -r requirements-lock.txt
	@touch $@

$(VENV)/docs: $(VENV)/run requirements-docs.txt
	$(BIN)/$(INSTALL) --require-hashes -r requirements-docs.txt
	@touch $@

demo: $(VENV)/run
	rm -rf demo
	$(BIN)/murmurlog demo --out demo
	@echo "look at it: $(BIN)/murmurlog serve demo/bundle"

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
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

papers: $(VENV)/run
	$(BIN)/python -m papers

faults: $(VENV)/run
	$(BIN)/python audits/faults.py
	$(BIN)/python audits/series_faults.py

fuzz: $(VENV)/dev
	$(BIN)/python audits/fuzz.py
	$(BIN)/python audits/parameters.py
	$(BIN)/python audits/reader_fuzz.py --files $(FUZZ_FILES)
	$(BIN)/python audits/frames_fuzz.py --frames $(FUZZ_FRAMES)
	$(BIN)/python audits/product_fuzz.py --logs $(FUZZ_LOGS)

# New locks for every Python from 3.11 on, with hashes and without the name of any index, and the metadata of what
# they pin. A pin stays while the requirements allow it; `make lock UPGRADE=--upgrade` takes the newest versions.
LOCK := $(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-header --no-annotate $(UPGRADE)
lock: $(VENV)/run $(VENV)/lock/ready
	$(LOCK) --group build --output-file requirements.txt pyproject.toml
	$(LOCK) --group build --group dev --constraint requirements.txt \
	--output-file requirements-dev.txt pyproject.toml
	$(LOCK) --extra spark --constraint requirements-dev.txt \
	--output-file requirements-spark.txt pyproject.toml
	$(LOCK) --group browser --constraint requirements-dev.txt --output-file requirements-browser.txt
	$(LOCK) --group docs --constraint requirements-dev.txt --output-file requirements-docs.txt
	$(LOCK) --group moto --output-file requirements-moto.txt
	$(LOCK) --group lock --output-file requirements-lock.txt
	$(BIN)/python tests/support/locks.py $(VENV)/lock/bin/python

clean:
	rm -rf $(VENV) demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
