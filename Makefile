# Two commands do everything on a machine that has Python 3.11 or later, git and make:
#   make demo   makes an environment of its own and runs the main job
#   make test   runs every check that CI runs

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint reference types unit adapters matrix wheel soak bench clean

demo: $(VENV)/demo
	$(RUN) examples/quickstart.py

test: lint types unit adapters matrix wheel
	$(MAKE) soak ARGS="--seconds 45 --store all"

lint: $(VENV)/ready
	$(RUN) -m ruff check --output-format concise .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-logo --no-cache

reference: $(VENV)/ready
	$(RUN) tests/reference.py

types: $(VENV)/ready
	$(RUN) -m mypy

unit: $(VENV)/ready
	$(RUN) -m pytest --numprocesses auto --dist worksteal

adapters: $(VENV)/ready
	$(RUN) tests/environments.py

matrix: $(VENV)/ready
	PYTHONPATH=tests $(RUN) -m proofs.matrix $(ARGS)

wheel: $(VENV)/ready
	$(RUN) tests/install_wheel.py

soak: $(VENV)/ready
	PYTHONPATH=tests $(RUN) -m proofs.soak $(ARGS)

bench: $(VENV)/ready
	$(RUN) -m benchmarks $(ARGS)
	$(if $(ARGS),,$(RUN) -m benchmarks.field --output docs/evidence/field.md)
	$(if $(ARGS),,$(RUN) -m benchmarks.scale)

$(VENV)/demo: $(VENV)/made
	$(INSTALL) -e ".[local,images]" --group demo
	touch $@

$(VENV)/ready: $(VENV)/made
	$(INSTALL) -e ".[local,images]" --group test --group lint
	touch $@

$(VENV)/made: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	touch $@

clean:
	rm -rf $(VENV) .venvs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
