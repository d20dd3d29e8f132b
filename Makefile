# Thin: what to run, no logic. The environment is .venv, made once and again when the lists change.
PYTHON ?= python3
BIN := .venv/bin
DATA ?=
OUT ?= out

.PHONY: install tour lab test test-fast lint docs bench clean

install: .venv/installed

tour: .venv/installed
	$(BIN)/climlab-dl tour --out "$(OUT)" $(if $(DATA),--data "$(DATA)")

lab: .venv/installed
	$(BIN)/climlab-dl lab

test: lint
	$(BIN)/python -m pytest

test-fast: .venv/installed
	$(BIN)/python -m pytest -q -m "not slow and not mpi and not browser"

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

bench: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/climlab-dl bench all --short

docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/installed: pyproject.toml constraints.txt
	@echo "Installing into .venv: about 3 GB, which takes some minutes."
	@echo "1/2 an empty environment"
	$(PYTHON) -m venv .venv
	@echo "2/2 the packages, which takes the minutes and says nothing where its output goes to a file"
	$(BIN)/python -m pip install --quiet --progress-bar on --constraint constraints.txt --editable ".[dev]"
	@echo "Installed."
	touch $@

clean:
	rm -rf .venv out build dist
