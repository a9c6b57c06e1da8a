# Two commands do everything: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-all attack lint types docs clean

demo: $(VENV)/.installed
	$(BIN)/rankgrad demo

# Two processes of one thread each: on two cores, threads that wait for each other cost more than they bring.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test: lint types
	$(PYTEST) -m "not long"
	TRITON_INTERPRET=1 $(PYTEST) -m "not long" tests/kernels/test_triton_*.py

# The long checks: the standing attack, every backend, big lists, recipes, other users and full disks.
test-all: test
	$(PYTEST) -m long
	TRITON_INTERPRET=1 $(PYTEST) -m long tests/kernels/test_triton_*.py

# Half an hour of the standing attack; `python tests/long/attack.py --help` says more.
attack: $(VENV)/.installed
	$(BIN)/python tests/long/attack.py --minutes 30

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed
	$(BIN)/mypy

# Rebuilds the pictures and tables in docs/ from the code.
docs: $(VENV)/.installed
	$(BIN)/python docs/build.py

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
