# make parse TEXT="…"   set up, then parse a sentence
# make test             set up, then run all checks and tests, with the same generated examples every time
# make docs             set up, then build the documentation site into site/; open site/index.html, no server is needed
# make docs-serve       set up, then show the site at http://127.0.0.1:8000/ and rebuild it when a page changes
# make fuzz             set up, then run the tests that generate examples with new random ones
#      SECONDS=600      start another round until so many seconds have passed (0: one round)
#      EXAMPLES=1000    generate so many examples for each test (100); tests that set their own number keep it

PYTHON ?= python3
TEXT ?= I tried for hours, but none of the words answered.
override TEXT := $(value TEXT)# as it is, dollar signs and all
export TEXT
SECONDS ?= 0
EXAMPLES ?= 100
BIN := .venv/bin
READY := .venv/.ready
TOOLS := .venv/.tools

.PHONY: parse test docs docs-serve fuzz check format setup benchmarks clean

setup: $(TOOLS)

# To parse, the package alone is needed.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# All in one call, so that pip works out once what to install; then all cores compile what one would in pip.
# combo-nlp carries the original CoNLL 2018 scorer; its own dependencies are not needed for that one file.
$(TOOLS): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev,docs,oracles,ray,serve,spacy,tables,train]'
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --no-deps combo-nlp
	$(BIN)/python -m compileall -qq -j 0 .venv/lib || true # some packages carry files that no Python compiles
	touch $(READY) $@

parse: $(READY)
	@$(BIN)/treefine parse --text --format tree -- "$$TEXT"

# One worker more than there are cores: some tests wait for processes that they start.
test: check
	$(BIN)/pytest -n $$(($$(nproc) + 1)) --dist worksteal

# The first failure ends it, and pytest prints the example and how to repeat it.
fuzz: setup
	end=$$(($$(date +%s) + $(SECONDS))); \
	while FUZZ=1 EXAMPLES=$(EXAMPLES) $(BIN)/pytest -n auto --dist worksteal -m hypothesis tests; do \
		[ $$(date +%s) -lt $$end ] || exit 0; \
	done; exit 1

# mkdocs-material prints a note about MkDocs 2 unless this is set.
docs docs-serve: export NO_MKDOCS_2_WARNING = 1

docs: setup
	$(BIN)/mkdocs build --strict

docs-serve: setup
	$(BIN)/mkdocs serve --livereload

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

benchmarks: setup
	$(BIN)/python -m benchmarks all

clean:
	rm -rf .venv build dist site
