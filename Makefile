# For a newcomer: `make bench` measures on this machine, `make test` tests everything.
# For a developer: `make check`, about a minute; `make benchmarks`, edgebench's own performance.

# tflite-runtime ends at Python 3.11, so that one is preferred; any from 3.10 on will do.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
# uv installs the same versions in a few seconds of CPU time, where pip takes a minute. It does not
# read pip's configuration: where that alone names an index, uv fails and pip is asked.
UV ?= $(shell command -v uv)
install = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt $(1) ||) \
	$(BIN)/python -m pip --quiet --disable-pip-version-check install -c constraints.txt $(1)
BENCH_OPTIONS ?= --quick

# In the order of docs/performance.md.
BENCHMARKS := push harness_overhead binding_cost confinement observer_effect ab_calibration coverage clocks ordinary disturbances trouble_corpus \
	meter_decode meter_streams meter_hour energy_truth energy_simulated energy_faults startup first_line report_speed idle_agent \
	store_scale syncs farm_scale meters_beside_analysis reader_priority history_calibration serve_pages
BENCHMARK_OPTIONS ?= --short

# Without bytecode, each of the thousand processes of the tests compiles edgebench anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: environment bench benchmarks collect test test-together test-alone chaos arm64 check \
	lint lint-style lint-types lint-mypy lint-pyright format clean

bench: $(VENV)/.bench
	@$(BIN)/edgebench bench --runtime all $(BENCH_OPTIONS); code=$$?; \
	echo 'before the next command: . $(BIN)/activate'; exit $$code

# One after another on a machine that does nothing else: about ten minutes with --short.
benchmarks: $(VENV)/.dev
	@for name in $(BENCHMARKS); do \
		$(BIN)/python benchmarks/$$name.py $(BENCHMARK_OPTIONS) || exit 1; done

environment: $(VENV)/.dev

# Rewrites the assertions of the tests once, which else each of their processes does for itself.
collect: $(VENV)/.dev
	$(BIN)/python -m pytest --collect-only -qq >/dev/null

# What fails beside others, or beside a neighbour of this machine, runs once more by itself: what is
# wrong fails twice. What ran again is in a file and in the last lines, and CI checks it (.ci/run).
RETRIED := build/retried.txt
# A file stays on one process, so that its agent is started once. OpenBLAS otherwise starts a thread
# in each process that imports numpy, which spins for 80 ms of CPU time.
tests = OPENBLAS_NUM_THREADS=1 $(BIN)/python devtools/run_tests.py $(RETRIED) \
	--dist loadfile --no-loadscope-reorder $(1) -- $(TEST_OPTIONS)

test:
	@$(MAKE) --no-print-directory test-together
	@$(MAKE) --no-print-directory test-alone

# Eight at a time, as many of them wait.
test-together: $(VENV)/.dev
	@rm -f $(RETRIED)
	$(call tests,-n 8 -m "not alone")

# The ones that others would disturb, two at a time.
test-alone: $(VENV)/.dev
	$(call tests,-n 2 -m alone)

# A campaign over a farm in network namespaces, on which everything fails; by hand, as root: about
# five minutes on a machine that does nothing else.
chaos: $(VENV)/.dev
	$(BIN)/python tests/system/farm_chaos.py --runs 200 --kills 30 --seed 3 $(CHAOS_OPTIONS)

# A deploy to an emulated board; by hand, as root: 8 to 15 minutes.
arm64: $(VENV)/.dev
	$(BIN)/python tests/system/arm64/emulated_board.py

check: lint
	$(BIN)/python -m pytest -q -n 2 -m "not slow" tests/test_layout.py tests/unit

# What `make test` does not look at. Separate targets, so that `make -j2 lint` checks types twice at
# the same time.
lint: lint-style lint-types

lint-types: lint-mypy lint-pyright

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

PROJECTS := pyproject.toml agent/pyproject.toml constraints.txt

# Both distributions in one command: nobody is asked for the agent that lies here. The sizes are
# those of the wheels for Python 3.11 on x86-64, without what a cache holds already.
$(VENV)/.bench: $(VENV)/bin/python $(PROJECTS)
	@echo "installing packages into $(VENV): a download of about 180 MB the first time"
	$(call install,-e ./agent -e '.[all]')
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python $(PROJECTS)
	@echo "installing packages into $(VENV): a download of about 310 MB the first time"
	$(call install,-e ./agent -e '.[dev]')
	@touch $@ $(VENV)/.bench
