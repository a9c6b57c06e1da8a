# Two commands do everything: `make demo` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-all lint types docs clean

demo: $(VENV)/.installed
	$(BIN)/rankgrad demo

test: lint types
	$(BIN)/pytest -n 2 -m "not long"

# The long checks: fuzzing, kills, quick recipes.
test-all: test
	$(BIN)/pytest -n 2 -m long

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
