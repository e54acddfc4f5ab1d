# Every target installs what it needs by itself: a virtual environment in .venv, and Python through apt-get where
# that is possible. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install demo test lint bench bench-plots simulate fuzz proto clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BULK := $(VENV)/.ready-bulk
SEEDS ?= 2000
START ?= 0
N ?= 10000

help: ## this list
	@echo "VMS: always-fresh SQL views inside HBase"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(READY) ## the virtual environment in .venv; every other target does this by itself

$(READY): pyproject.toml deploy/install-python.sh
	@bash deploy/install-python.sh $(VENV)
	@echo "installing the Python packages (a minute or two, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(BULK): $(READY)
	@echo "installing Spark for the tests of bulk jobs (a minute, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bulk]'
	@touch $@

demo: $(READY) ## TPC-H views kept fresh under a live change stream, then compared with DuckDB
	@$(BIN)/vms demo

test: $(READY) $(BULK) lint ## style and types, then all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal tests --ignore tests/hbase --ignore tests/bulk
	$(BIN)/python -m pytest tests/hbase
	$(BIN)/python -m pytest tests/bulk

lint: $(READY) ## style, types, and the import rules between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy vms bench
	$(BIN)/lint-imports

bench: $(READY) ## the engine's speed beside hand-written programs and DuckDB, kept in bench/results
	$(BIN)/python -m bench.results record

bench-plots: $(READY) ## the picture in the README, of the newest run in bench/results
	$(BIN)/python -m bench.results plot

proto: ## the Python code of the wire messages in proto/, after they were changed
	@bash deploy/make-proto.sh

simulate: $(READY) ## the epoch protocol under faults, from seeds; SEEDS=2000 START=0 says which
	$(BIN)/python -m vms.testing.simulate --seeds $(SEEDS) --start $(START) --jobs 2

fuzz: $(READY) ## random views over random histories, against two oracles; N=10000 START=0 says which
	$(BIN)/python -m vms.testing.fuzz --views $(N) --start $(START) --jobs 2

clean: ## remove the virtual environment and everything that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
