# For a newcomer: `make bench` measures on this machine, `make test` tests everything.
# For a developer: `make check`, about a minute; `make benchmarks`, edgebench's own performance.

# tflite-runtime ends at Python 3.11, so that one is preferred; any from 3.10 on will do.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
BENCH_OPTIONS ?= --quick

# In the order of docs/performance.md.
BENCHMARKS := push harness_overhead binding_cost confinement observer_effect ab_calibration coverage \
	meter_decode meter_streams meter_hour energy_truth energy_simulated startup idle_agent
BENCHMARK_OPTIONS ?= --short

# Without bytecode, each of the thousand processes of the tests compiles edgebench anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench benchmarks test check lint lint-style lint-mypy lint-pyright format clean

bench: $(VENV)/.bench
	$(BIN)/edgebench bench --runtime all $(BENCH_OPTIONS)

# One after another on a machine that does nothing else: about eight minutes with --short.
benchmarks: $(VENV)/.dev
	@for name in $(BENCHMARKS); do \
		$(BIN)/python benchmarks/$$name.py $(BENCHMARK_OPTIONS) || exit 1; done

# Four at a time, as most of them wait, then the ones that need the machine for themselves. A file
# stays on one process, so that its agent is started once. TEST_OPTIONS may choose none of a half:
# pytest then ends with 5.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -m "not alone" \
		$(TEST_OPTIONS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -m alone $(TEST_OPTIONS) || [ $$? -eq 5 ]

check: lint
	$(BIN)/python -m pytest -q -n 2 -m "not slow" tests/test_layout.py tests/unit

# What `make test` does not look at. Separate targets, so that `make -j2 lint` checks types twice at
# the same time.
lint: lint-style lint-mypy lint-pyright

lint-style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

lint-mypy: $(VENV)/.dev
	$(BIN)/mypy

lint-pyright: $(VENV)/.dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.10 or newer found" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.bench
