# The whole life of a checkout. Every target sets the environment up first; a second call installs nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
PEERS := .venv-bench/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: run test install check papers bench lock clean data-folder

run: install
	$(BIN)/coterie run

test: install
	$(BIN)/python -m pytest tests

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

papers: data-folder install
	$(BIN)/python -m pytest papers -rP

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

lock: install
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras --no-emit-options --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv .venv-bench runs
