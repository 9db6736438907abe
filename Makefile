# make demo   installs what `deploy` needs and deploys the example
# make test   installs what the tests need and runs them
# make sweep  runs the long sweeps, which `make test` leaves out
# make check  lint, types, budget and tests
# make budget the size of the tree beside budget.toml
# make docs   builds the pages of docs/ into out/site
# make bench  the benchmarks (they need the real models; see bench/README.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SIZE_verify := 640 MB: C compiler, emulator, LiteRT
SIZE_test := 2.3 GB: also PyTorch, ONNX and the tools of the tests
SIZE_docs := 250 MB: MkDocs
WORKERS := -n auto --dist worksteal

# Python compiles modules when they are first imported, not all 20,000 when they are installed, and keeps the result.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test sweep lint types budget check docs bench clean

setup: $(STAMP)-test

$(STAMP)-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing '.[$*]' into $(VENV), about $(SIZE_$*)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	touch $@

demo: $(STAMP)-verify
	$(BIN)/python examples/keywords/demo.py

test: setup
	$(BIN)/python -m pytest $(WORKERS)

sweep: setup
	$(BIN)/python -m pytest $(WORKERS) -m sweep

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

budget: setup
	$(BIN)/python bench/budget.py

check: lint types budget test

docs: $(STAMP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: setup
	$(BIN)/python bench/code_size.py
	$(BIN)/python bench/board_times.py
	$(BIN)/python bench/cycles_per_instruction.py
	$(BIN)/python bench/models.py
	$(BIN)/python bench/papers/fusion.py
	$(BIN)/python bench/papers/reordering.py
	$(BIN)/python bench/papers/thesis.py
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/streaming.py

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache *.egg-info
