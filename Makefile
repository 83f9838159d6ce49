# One command each: `make demo`, `make test`. Everything they need is installed into .venv from pyproject.toml.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
FAST   := $(BIN)/pytest -q -n auto --dist worksteal --ignore=tests/on_ray --ignore=tests/on_spark

.PHONY: demo test check bench docs clean setup

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[all,dev]'
	mkdir -p $(VENV)/types && ln -sfn ../.. $(VENV)/types/rayvous
	touch $@

demo: setup            ## the main job: flights through a network that loses a broker meanwhile, the verdict, the report
	$(BIN)/rayvous demo --kill deb --out out/demo

check: setup           ## under two minutes: lint, types, machine-level and simulator tests; never starts Ray
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(VENV)/types $(BIN)/mypy -p rayvous
	$(FAST) -m "not slow"

# What is slow runs beside the tests on Ray, on what they leave of the cores: they wait a third of their time.
test: check            ## everything: check, then the tests on Ray, on Spark and of the command line; beside them what is slow
	mkdir -p out
	@echo "what is slow runs beside: out/slow.txt"; \
	nice -n 19 $(FAST) -m slow > out/slow.txt 2>&1 & slow=$$!; \
	trap 'kill $$slow 2>/dev/null' EXIT; \
	$(BIN)/pytest -q tests/on_ray tests/on_spark; heavy=$$?; \
	wait $$slow; beside=$$?; trap - EXIT; cat out/slow.txt; \
	exit $$((heavy > beside ? heavy : beside))

bench: setup           ## our speed beside its limits; JSON on standard output
	$(BIN)/rayvous bench matching --json
	$(BIN)/rayvous bench dataplane --json
	$(BIN)/rayvous bench simulator --json
	$(BIN)/rayvous bench durability --json
	$(BIN)/rayvous bench report --json

docs: setup            ## the site: guide, tutorials, reference; open out/docs/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) out build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
