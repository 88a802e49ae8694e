# The whole life of a checkout. Every target sets the environment up first; a second call installs nothing.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run test install check papers bench lock clean

run: install
	$(BIN)/coterie run

test: install
	$(BIN)/python -m pytest tests

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || python3 -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

papers: install
	@test -d "$$COTERIE_DATA" || { echo "make papers: COTERIE_DATA='$$COTERIE_DATA' is not a folder. Set it to the folder that holds the data sets (see docs/data.md)." >&2; exit 2; }
	$(BIN)/python -m pytest papers

bench: install
	$(BIN)/python -m benchmarks

lock: install
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv runs
