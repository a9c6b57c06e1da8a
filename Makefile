# Two commands do everything: `make demo` and `make test`. Both make .venv first. `make demo` installs the core and the
# extra `report`; all other targets also install the tools of development.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Python keeps what it compiles, even where the environment says otherwise: the tests start many processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all release-check attack lint types docs pages clean

# One thread per process: threads that wait for each other cost more than they bring, if other programs also run.
demo: $(VENV)/.core
	OMP_NUM_THREADS=1 $(BIN)/rankgrad demo

PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test: lint types
	$(PYTEST) -m "not long"
	TRITON_INTERPRET=1 $(PYTEST) -m "not long" tests/kernels/test_triton_*.py

# The long checks: the standing attack, mutants of the source, every backend, big lists, recipes, other users and full disks.
test-all: test
	$(PYTEST) -m long
	TRITON_INTERPRET=1 $(PYTEST) -m long tests/kernels/test_triton_*.py

# Wheel and source distribution in clean environments; part of test-all.
release-check: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/release

# Half an hour of the standing attack; `python tests/long/attack.py --help` says more.
attack: $(VENV)/.dev
	$(BIN)/python tests/long/attack.py --minutes 30

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

# Builds the site in build/site/html, offline; warnings are errors.
docs: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python docs/build_site.py

# Rebuilds the pictures and tables in docs/ from the code and the measurements; those of studies: studies/build.py.
pages: $(VENV)/.dev
	$(BIN)/python docs/build.py

# With --no-compile, Python compiles a module when it is first imported: most modules of the packages never are.
INSTALL = $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) ".[report]"
	touch $@

# The tools include everything that the demo needs.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) ".[dev]"
	touch $(VENV)/.core $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
