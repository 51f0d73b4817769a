# The handful of commands; CONTRIBUTING.md says when to run which.
BIN := .venv/bin

.PHONY: setup check format test fuzz goldens man packages site

setup:
	python3 -m venv .venv
	$(BIN)/pip install -q -e '.[test,cuda,rtx]'
	$(BIN)/python tests/support/tensorrt_api.py

check:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks/*.py
	$(BIN)/lint-imports
	$(BIN)/flowc fmt --check examples/*/*.flow platforms/*.flow

format:
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/flowc fmt examples/*/*.flow platforms/*.flow

test:
	$(BIN)/python -m pytest -n 4

# make fuzz MINUTES=5 SEED=7
MINUTES ?= 60
SEED ?= 2
fuzz:
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

# The documentation as a site: build/site/html/index.html.
site:
	$(BIN)/pip install -q -e '.[docs]'
	$(BIN)/python docs/make_site.py

# The packages of a release in build/packages, tried as .ci/run tries them.
packages:
	.ci/packages build/packages

# Manual pages in build/man, made with help2man.
man:
	$(BIN)/python docs/make_man.py build/man

# Rewrites what is expected: read the difference before you keep it.
goldens:
	FLOWC_REWRITE_GOLDEN=1 $(BIN)/python -m pytest tests/cli/test_diagnostics.py tests/codegen/test_codegen.py tests/codegen/test_gpu.py tests/codegen/test_robots.py tests/end_to_end/test_matrix.py::test_the_page_is_up_to_date tests/end_to_end/test_site.py
