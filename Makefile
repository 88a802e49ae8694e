# The whole life of a checkout. Every target sets the environment up first; a second call installs nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
PEERS := .venv-bench/.installed
SPHINX := .venv-docs/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

AUDIT := .venv-wheel/.installed
CHROMIUM_TESTS := .venv-browser/.installed

# Where it is set, as in many containers, each of some hundred processes would compile all of coterie again.
unexport PYTHONDONTWRITEBYTECODE

RUN_TESTS := $(BIN)/python -m pytest --doctest-modules --ignore-glob='papers/test_*' tests papers src

.PHONY: run test test-again install check docs pages papers bench browser wheel lock clean data-folder

run: install
	$(BIN)/coterie run

# In the order of tests/conftest.py: files that take long first. In four processes also on two cores: a quarter of the
# time a process waits for owners that it started.
test: install
	$(RUN_TESTS) --numprocesses=4 --dist=loadfile --no-loadscope-reorder

# What failed, once more and one after the other: tells a fault from a machine that was too busy for real processes.
test-again: install
	$(RUN_TESTS) --last-failed --last-failed-no-failures=none

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml setup.py $(wildcard src/coterie/mechanisms/onepass*.[ch])
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: PYTHON='$(PYTHON)' is not Python 3.11 or later. Give one: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Setting up .venv with the pinned dependencies; this happens once and takes a minute or two." >&2
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@ls src/coterie/mechanisms/_onepass*.so >/dev/null 2>&1 || echo "The C function was not compiled (no compiler, or not x86-64): models of several classes train more slowly (docs/scale.md)." >&2
	@touch $(STAMP)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# The site, from pages as they are; a link or an anchor that leads nowhere, or a page that no index names, is an error.
# Then every command that a page shows with its output is run.
docs: install $(SPHINX)
	.venv-docs/bin/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs . build/site
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadgroup docs/tests
	@echo "built: build/site/index.html"

# What pages show is printed, drawn and listed by the code. Run this after a change of what commands print.
pages: install
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/pictures.py
	$(BIN)/python scripts/tutorial.py
	$(BIN)/python scripts/pages.py

# What builds the site lives apart from what runs.
$(SPHINX): requirements-docs.lock
	@echo "Setting up .venv-docs with Sphinx; this happens once and takes half a minute." >&2
	@test -x .venv-docs/bin/python || "$(PYTHON)" -m venv .venv-docs
	@.venv-docs/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements-docs.lock
	@touch $(SPHINX)

papers: data-folder install
	$(BIN)/python -m pytest papers --ignore=papers/tests -rP --numprocesses=2 --dist=loadfile

data-folder:
	@test -d "$$COTERIE_DATA" || { echo "make papers: COTERIE_DATA='$$COTERIE_DATA' is not a folder. Set it to the folder that holds the data sets (see docs/data.md)." >&2; exit 2; }

bench: install $(PEERS)
	$(BIN)/python -m benchmarks

# Libraries that are measured beside ours live apart: none of them is a dependency.
$(PEERS): benchmarks/peers/requirements.txt
	@echo "Setting up .venv-bench with PyTorch, Opacus, Flower and gossipy; this happens once and takes a few minutes." >&2
	@test -x .venv-bench/bin/python || "$(PYTHON)" -m venv .venv-bench
	@.venv-bench/bin/python -m pip --quiet --disable-pip-version-check install -r benchmarks/peers/requirements.txt
	@touch $(PEERS)

# The page of `coterie ui` end to end. Its driver lives apart from the tests that need no browser.
browser: install $(CHROMIUM_TESTS)
	@command -v chromium >/dev/null || { echo "make browser: chromium is not on the PATH. Install it: apt-get install chromium" >&2; exit 2; }
	.venv-browser/bin/python -m pytest -c browser/pytest.ini browser

$(CHROMIUM_TESTS): browser/requirements.txt browser/package-lock.json
	@echo "Setting up .venv-browser with Playwright, and axe-core by npm; this happens once." >&2
	@test -x .venv-browser/bin/python || "$(PYTHON)" -m venv .venv-browser
	@.venv-browser/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r browser/requirements.txt
	@npm ci --silent --no-audit --no-fund --ignore-scripts --prefix browser
	@touch $(CHROMIUM_TESTS)

# Two wheels, tried in environments of their own: one that runs anywhere, and one with the compiled function.
wheel: install $(AUDIT)
	$(BIN)/python scripts/wheels.py build/wheels .venv-wheel/bin/auditwheel

$(AUDIT): deploy/requirements-wheel.txt
	@echo "Setting up .venv-wheel with auditwheel; this happens once." >&2
	@test -x .venv-wheel/bin/python || "$(PYTHON)" -m venv .venv-wheel
	@.venv-wheel/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r deploy/requirements-wheel.txt
	@touch $(AUDIT)

lock: install
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras --no-emit-options --no-header --output-file requirements.lock pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' | \
		$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-options --no-annotate --no-header --output-file requirements-docs.lock -
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-options --no-header --output-file browser/requirements.txt browser/requirements.in

clean:
	rm -rf .venv .venv-bench .venv-docs .venv-browser .venv-wheel browser/node_modules build/site build/wheels runs
