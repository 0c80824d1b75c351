# pdml-spdz. `make` lists the targets; each one sets up what it needs.
.DEFAULT_GOAL := help
# Every party is a process of its own: what has been compiled is kept, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
.DELETE_ON_ERROR:
SHELL := /bin/sh

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= runs/svd

# make svd RANK=5 SOLVER=power ITERATIONS=50 ENGINE=secsum BOUND=secsum FILES="a.npy b.npy" ARGS="--tol 1e-6"
# make svd ENGINE=mp-spdz PROTOCOL=mascot ITERATIONS=20: on MP-SPDZ (docs/mp-spdz.md), with malicious security
# make offline-phase PARTIES=3 DIM=64 RANK=7: the defaults are the plan of `make svd`
RANK       ?= 7
ITERATIONS ?=
SOLVER     ?=
ENGINE     ?= embedded
PROTOCOL   ?=
BOUND      ?= rows:128,2000
PARTIES    ?= 3
DIM        ?= 64
FILES      ?= examples/digits/party-0.csv.gz examples/digits/party-1.csv.gz examples/digits/party-2.csv.gz
ARGS       ?=

STEPS      := $(if $(SOLVER),--solver $(SOLVER)) $(if $(ITERATIONS),--iterations $(ITERATIONS))

.PHONY: help svd nmf offline-phase docs test test-all test-spdz chaos check lint bench experiments privacy paper house clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

svd: $(VENV)/.run-stamp ## private SVD of three parties' rows (digits), each party a process of its own
	$(BIN)/pdml-spdz svd $(FILES) --rank $(RANK) $(STEPS) --engine $(ENGINE) --bound $(BOUND) \
	  --protocol "$(PROTOCOL)" --out $(OUT) --force $(ARGS)

nmf: $(VENV)/.run-stamp ## private topics of the same rows (PD-NMF)
	$(BIN)/pdml-spdz nmf $(FILES) --rank $(RANK) --bound $(BOUND) --out runs/nmf --force $(ARGS)

offline-phase: $(VENV)/.run-stamp ## the material of `make svd`, made before there is any data
	$(BIN)/pdml-spdz offline make --parties $(PARTIES) --dim $(DIM) --rank $(RANK) $(STEPS) \
	  --engine $(ENGINE) --protocol "$(PROTOCOL)" --bound $(BOUND)

test: lint ## linters, types and tests (six minutes on two fast cores, fifteen on slow ones); three processes: some of it is waiting
	$(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not spdz_long and not long"

test-all: lint ## the same and the long tests, more cases of the same kinds (docs/testing.md): all that needs no MP-SPDZ
	$(BIN)/python -m pytest -n 3 --dist worksteal -q -m "not spdz_long"

test-spdz: lint ## everything that needs MP-SPDZ (MP_SPDZ_HOME: docs/mp-spdz.md): eight minutes once its programs are compiled
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -rs -m "spdz or spdz_long" tests/spdz tests/conformance

chaos: $(VENV)/.dev-stamp ## 525 runs under attack (ten minutes), the table of docs/testing.md; ARGS="--only relay --seed 1234": one case again
	$(BIN)/python -m tests.chaos --page $(ARGS)

check: lint ## linters, types and the quick tests
	$(BIN)/python -m pytest -n 2 -q -m "not long" tests/unit tests/properties tests/nmf

lint: $(VENV)/.dev-stamp ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev-stamp ## what everything costs, wanted and found (a quarter of an hour; ARGS=--full: the whole; ARGS="--only normed-sum")
	$(BIN)/python -m benchmarks.performance $(ARGS)

experiments: $(VENV)/.dev-stamp ## the paper's experiments (PDML_DATA=DIR: where the official data sets are), a small grid; ARGS=--full: the whole
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[experiments]'
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.experiments $(ARGS)

privacy: $(VENV)/.dev-stamp ## the paper's privacy experiments (PDML_DATA=DIR), a small size; ARGS=--full: the paper's
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.privacy $(ARGS)

paper: $(VENV)/.dev-stamp ## docs/paper.md, docs/claims.md from results; ARGS='--table-1 --jobs 2': goes on with Table 1 (PDML_DATA=DIR)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.paper $(ARGS)

house: $(VENV)/.dev-stamp ## a picture of the package from its imports (docs/house.svg); hops of the walks in docs/architecture.md, lines of code
	$(BIN)/python -m benchmarks.house
	$(BIN)/python -m benchmarks.house --count

docs: $(VENV)/.dev-stamp ## the documentation as a site (build/site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean: ## remove the virtual environment and what runs left behind
	rm -rf $(VENV) runs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "pdml-spdz: found $$($(PYTHON) --version 2>&1), wanted Python 3.11 or newer."; \
	  echo "Do this: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "pdml-spdz: $(PYTHON) has no venv module, which holds this project's packages."; \
	  echo "Do this: sudo apt-get install -y python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev-stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.run-stamp
