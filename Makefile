# make parse TEXT="…"   set up, then parse a sentence
#      LANG=sv          parse in another language: a code, a treebank or an English name; also sets up the model of
#                       36 languages. LANG counts only on the command line, because every shell sets it to its locale.
# make test             set up, then run all checks and the fast tests, for every commit
# make test-all         make test, then the slow tests in tests/slow; .ci/run runs it
# make docs             set up, then build the documentation into site/; open site/index.html, no server is needed
# make docs-serve       set up, then serve the documentation at http://127.0.0.1:8000/ and rebuild it when a page changes
# make fuzz             set up, then run all commands and routes on random inputs, and the property tests with new examples
#      SECONDS=600      take about 600 seconds in all (default 60; the property tests run at least once)
#      SEED=2           generate other inputs for the commands and routes (default: the current time)
#      EXAMPLES=1000    generate 1,000 examples per test (default 100), except for tests with a number of their own

PYTHON ?= python3
TEXT ?= My debut novel is about two children stealing a crown.
override TEXT := $(value TEXT)# keep dollar signs as they are
export TEXT
SECONDS ?= 60
SEED ?= $(shell date +%s)
EXAMPLES ?= 100
BIN := .venv/bin
READY := .venv/.ready
EXTRA := packages/treefine-multi
EXTRA_READY := .venv/.treefine-multi
PAPER := $(wildcard packages/treefine-paper)
TOOLS := .venv/.tools
ALL_TOOLS := .venv/.all-tools

.PHONY: parse test fast-tests test-all docs docs-serve fuzz check format setup setup-all benchmarks clean

setup: $(TOOLS)
setup-all: $(ALL_TOOLS)

# Parsing needs only the package itself.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# The model of 36 languages is a package of its own.
$(EXTRA_READY): $(EXTRA)/pyproject.toml | $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt --editable $(EXTRA)
	touch $@

# One pip call resolves the dependencies once. combo-nlp contains the original CoNLL 2018 scorer; that one file needs
# none of its dependencies.
$(TOOLS): pyproject.toml constraints.txt $(EXTRA)/pyproject.toml $(PAPER:=/pyproject.toml)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]' $(foreach package,$(EXTRA) $(PAPER),--editable $(package))
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --no-deps combo-nlp
	touch $(READY) $(EXTRA_READY) $@

# What only the slow tests, the documentation, fuzzing and benchmarks need.
$(ALL_TOOLS): $(TOOLS)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[slow]'
	touch $@

ifeq ($(origin LANG),command line)
ASKED_LANGUAGE := $(value LANG)
export ASKED_LANGUAGE
unexport LANG # it is not a locale
parse: $(EXTRA_READY)
	@$(BIN)/treefine parse --lang "$$ASKED_LANGUAGE" --text --format tree -- "$$TEXT"
else
parse: $(READY)
	@$(BIN)/treefine parse --text --format tree -- "$$TEXT"
endif

test: setup
	$(MAKE) --no-print-directory --jobs 2 check fast-tests # together: the checks use one core

# An empty value lets Python write compiled files, which the workers and the commands that they run then share.
# One more worker than cores, because some tests wait for processes that they start.
fast-tests test-all: export PYTHONDONTWRITEBYTECODE :=
fast-tests: setup
	$(BIN)/pytest -n $$(($$(nproc) + 1)) --dist worksteal --ignore tests/slow

test-all: test setup-all
	EXAMPLES=25 $(BIN)/pytest -n $$(($$(nproc) + 1)) --dist worksteal tests/slow

# Stops at the first failure and prints how to reproduce it. Half of the time is for the commands and routes.
fuzz: setup-all
	$(BIN)/python -m benchmarks fuzz_inputs --seconds $$(($(SECONDS) / 2)) --seed $(SEED) --rows scratch/rows.jsonl
	end=$$(($$(date +%s) + $(SECONDS) / 2)); \
	while FUZZ=1 EXAMPLES=$(EXAMPLES) $(BIN)/pytest -n auto --dist worksteal -m hypothesis tests; do \
		[ $$(date +%s) -lt $$end ] || exit 0; \
	done; exit 1

# mkdocs-material prints a note about MkDocs 2 unless this is set.
docs docs-serve: export NO_MKDOCS_2_WARNING = 1

docs: setup-all
	$(BIN)/mkdocs build --strict

docs-serve: setup-all
	$(BIN)/mkdocs serve --livereload

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

benchmarks: setup-all
	$(BIN)/python -m benchmarks all

clean:
	rm -rf .venv build dist site
