# Everything is done by these commands, on a machine that has Python 3.11 or later, git and make:
#   make demo     makes an environment of its own and runs the main job; its store is then in memory/
#   make check    three minutes to a verdict: lint, types, rules and the tests that need nothing
#   make test     runs every check that CI runs
#   make proofs   runs what takes long: properties at length, kills, the soak
#   make site     makes the site of the documentation, in build/site, and checks it
#   make release  builds and checks everything that is published, in dist, and publishes nothing
#   make mutants  breaks 200 lines of the storage, one at a time, and prints what no test noticed

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What each of hundreds of processes imports is compiled once, also where a machine says otherwise.
export PYTHONDONTWRITEBYTECODE :=
PROCESSORS = $$(getconf _NPROCESSORS_ONLN)
# Two more than there are processors: some tests are always waiting for a process or a server.
WORKERS = $$(($(PROCESSORS) + 2))
# Where tests note what they took.
NOTES := $(CURDIR)/.slowest.jsonl

.PHONY: demo check test proofs mutants slow rules imported lint reference types unit environments adapters matrix wheel interpreters soak bench site release clean

demo: $(VENV)/demo
	$(RUN) examples/quickstart.py --store memory

check: rules
	$(RUN) -m pytest --effort check --numprocesses $(PROCESSORS) --dist worksteal

test: export SLOWEST := $(NOTES)
test: $(VENV)/ready
	rm -f $(NOTES)
	$(MAKE) --jobs 2 --output-sync=target lint imported
	$(MAKE) --jobs 2 --output-sync=target unit environments types
	$(MAKE) adapters
	$(MAKE) --jobs 2 --output-sync=target matrix wheel interpreters soak MATRIX="--newest" SOAK="--seconds 45 --store all"
	$(RUN) tests/slowest.py $(NOTES)

proofs: $(VENV)/ready
	$(RUN) -m pytest --effort proofs --numprocesses auto --dist worksteal
	PYTHONPATH=tests $(RUN) -m proofs.crash --rounds 1000
	PYTHONPATH=tests $(RUN) -m proofs.crash --rounds 400 --often tag untag fork drop
	PYTHONPATH=tests $(RUN) -m proofs.crash --rounds 400 --often fold maintain thin --journal both
	PYTHONPATH=tests $(RUN) -m proofs.crash --rounds 500 --place directory+postgres --often fold
	PYTHONPATH=tests $(RUN) -m proofs.crash --rounds 300 --place s3+postgres --often fold
	PYTHONPATH=tests $(RUN) -m proofs.crash.verbs
	PYTHONPATH=tests $(RUN) -m proofs.crash.boards
	PYTHONPATH=tests $(RUN) -m proofs.crash.boards --many
	PYTHONPATH=tests $(RUN) -m proofs.crash.jobs
	PYTHONPATH=tests $(RUN) -m proofs.crash.locks
	PYTHONPATH=tests $(RUN) -m proofs.crash.transactions
	PYTHONPATH=tests $(RUN) -m proofs.together
	$(RUN) tests/environments.py --older
	$(MAKE) matrix
	$(RUN) tests/environments.py sentence-transformers e5 ray mcp-clients
	$(RUN) tests/interpreters.py --all
	$(RUN) tests/readme_blocks.py
	$(MAKE) soak ARGS="--seconds 600 --store all"

# Takes hours; what is known stands in .mutants.jsonl, so that a second run goes on: make mutants ARGS="--seed 2".
mutants: $(VENV)/ready
	PYTHONPATH=tests $(RUN) -m proofs.mutants -j $(PROCESSORS) $(ARGS)

# The tests that `make check` leaves out as slow, measured anew: on a machine that does nothing else.
slow: $(VENV)/ready
	rm -f $(NOTES)
	: > tests/slow.txt
	SLOWEST=$(NOTES) $(RUN) -m pytest --effort check --numprocesses $(PROCESSORS) --dist worksteal
	$(RUN) tests/slowest.py --slow $(NOTES) > .listed
	mv .listed tests/slow.txt

# Beside the rules, which keep one processor busy, the tests are imported once: what pytest compiles of
# them is then there for each of its workers.
rules: $(VENV)/ready
	$(MAKE) --jobs 2 --output-sync=target lint types imported

imported: $(VENV)/ready
	@$(RUN) -m pytest --collect-only --quiet --quiet > .collected || (cat .collected; exit 1)

lint: $(VENV)/ready
	$(RUN) -m ruff check --output-format concise .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-logo --no-cache

reference: $(VENV)/ready
	$(RUN) tests/reference.py

types: $(VENV)/ready
	$(RUN) -m mypy

unit: $(VENV)/ready
	$(RUN) -m pytest --numprocesses $(WORKERS) --dist worksteal

environments: $(VENV)/ready
	$(RUN) tests/environments.py --make

adapters: $(VENV)/ready
	$(RUN) tests/environments.py

matrix: $(VENV)/ready
	PYTHONPATH=tests $(RUN) -m proofs.matrix $(MATRIX) $(ARGS)

wheel: $(VENV)/ready
	$(RUN) tests/install_wheel.py

interpreters: $(VENV)/ready
	$(RUN) tests/interpreters.py $(ARGS)

soak: $(VENV)/ready
	PYTHONPATH=tests $(RUN) -m proofs.soak $(ARGS) $(SOAK)

bench: $(VENV)/ready
	$(RUN) -m benchmarks $(ARGS)
	$(if $(ARGS),,$(RUN) -m benchmarks.field --output docs/evidence/by_subject.md)
	$(if $(ARGS),,$(RUN) -m benchmarks.scale)

# A link or an anchor that leads nowhere is a warning, and each warning fails it.
site: .venvs/site/ready
	rm -rf build/site
	.venvs/site/bin/python -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet --doctree-dir build/doctrees --conf-dir docs/site . build/site
	.venvs/site/bin/python docs/site/check.py build/site
	.venvs/site/bin/python docs/site/accessible.py build/site

.venvs/site/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venvs/site
	.venvs/site/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	.venvs/site/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group site
	touch $@

# Builds, checks and installs everything that is published, and publishes nothing: make release ARGS=--rehearse
release: $(VENV)/ready .venvs/release/ready
	$(RUN) tests/release.py $(ARGS)

.venvs/release/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venvs/release
	.venvs/release/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	.venvs/release/bin/python -m pip install --quiet --disable-pip-version-check --group release
	touch $@

$(VENV)/demo: $(VENV)/made
	$(INSTALL) -e ".[local,images,documents]" -e apps/cli -e apps/inspector --group demo
	touch $@

# By uv, which takes a fifth of pip's processor time.
$(VENV)/ready: $(VENV)/made
	$(INSTALL) uv
	$(RUN) -m uv pip install --quiet --python $(RUN) -c constraints.txt -e ".[local,images]" -e apps/cli -e apps/inspector -e apps/mcp -e packages/lance-context-anthropic -e packages/lance-context-opentelemetry -e packages/lance-context-testing --group test --group lint
	touch $@

$(VENV)/made: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	touch $@

clean:
	rm -rf $(VENV) .venvs .corpus $(NOTES) .mutants.jsonl .collected .listed dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
