# One command each: `make demo`, `make test`. Everything they need is installed into .venv from pyproject.toml.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
PACKAGE := __init__.py py.typed $(patsubst %/,%,$(dir $(wildcard */__init__.py)))
TYPES  := MYPYPATH=$(VENV)/types $(BIN)/mypy -p rayvous
NO_RAY := $(BIN)/pytest -q -n auto --dist worksteal --ignore=tests/on_ray --ignore=tests/on_spark

# Python compiles a module once, when it is imported, and keeps that, whatever the environment says: hundreds of
# processes are started here, and each would compile the package again. So pip compiles nothing ahead.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check lint types fast slow thorough ray spark real kills beside bench mutants docs clean setup

setup: $(STAMP) $(VENV)/types

$(STAMP): pyproject.toml routing/matching/kernel.c routing/matching/kernel_hot.h
	$(PYTHON) -m venv $(VENV)
	@# The pip that comes with Python 3.11 takes twice as long to find what is needed; without a newer one it does.
	-$(BIN)/pip install --quiet --no-compile --upgrade pip
	$(BIN)/pip install -qq --no-compile --editable '.[all,dev]'
	touch $@

# The package under its name, for what reads sources: without the tests, and without what is in $(VENV).
$(VENV)/types: $(STAMP) $(wildcard */__init__.py)
	rm -rf $@ && mkdir -p $@/rayvous
	ln -s $(PACKAGE:%=../../../%) $@/rayvous/

demo: setup            ## the main job: flights through a network that loses a broker meanwhile, the verdict, the report
	$(BIN)/rayvous demo --kill deb --out out/demo

check: lint            ## for every change: lint, types, machine-level and simulator tests; never starts Ray
	$(MAKE) --no-print-directory -j 2 types fast

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(TYPES)

fast: setup            ## machine-level and simulator tests; property tests draw a tenth of their examples
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} $(NO_RAY) -m "not slow"

slow: setup            ## more seeds of chaos, large networks, a browser; without Ray
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-usual} $(NO_RAY) -m "slow and not thorough"

thorough: setup        ## what the others leave out: all tests without Ray, with all seeds and examples; no target calls it
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-steady} $(NO_RAY)

ray: setup             ## on real actors, and the command line
	$(BIN)/pytest -q tests/on_ray

spark: setup           ## telemetry in Spark, on a Ray of its own
	$(BIN)/pytest -q tests/on_spark

# On two cores the tests on Ray and Spark wait a third of their time: what is left is given to those that wait for nothing.
test: lint             ## everything: real, and beside it types, fast and slow, whose output follows
	@mkdir -p out
	@$(MAKE) --no-print-directory --keep-going -j 2 real beside; status=$$?; cat out/beside.txt; exit $$status

# Ray adds 15 to the niceness of its workers: those of the tests would have to share with what runs beside them.
real: setup            ## ray and spark, in two processes: one of them has the only Spark session
	RAY_worker_niceness=0 $(BIN)/pytest -q -n 2 --dist loadfile --durations=10 tests/on_ray tests/on_spark

kills: setup            ## what becomes data, killed twenty times each: sink, Ray Data, Spark, workers; RAYVOUS_KILL_SEED=7 draws others
	RAYVOUS_KILLS=20 RAY_worker_niceness=0 $(BIN)/pytest -q --durations=0 -k "dies or killed" tests/on_ray/test_sink.py \
		tests/on_ray/test_ray_data.py tests/on_ray/test_groups.py tests/on_spark/test_events.py

beside: setup
	@nice -n 19 sh -c '$(TYPES); types=$$?; \
		HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-usual} $(NO_RAY) -m "not thorough"; exit $$((types + $$?))' > out/beside.txt 2>&1

bench: setup           ## our speed beside its limits; JSON on standard output
	$(BIN)/rayvous bench matching --json
	$(BIN)/rayvous bench dataplane --json
	$(BIN)/rayvous bench simulator --json
	$(BIN)/rayvous bench durability --json
	$(BIN)/rayvous bench report --json

FOLDERS ?= routing/interest routing/schemes recovery/membership recovery/replay clients admission
mutants: setup         ## a sample of small changes to the code of folders, which tests have to find: FOLDERS=admission
	$(BIN)/python tests/mutation.py $(FOLDERS)

# The tutorials are run for their outputs and pictures, which takes minutes: Ray and Spark start. DOCS_RUN= leaves that out.
DOCS_RUN ?= 1
docs: setup            ## the site: guide, tutorials, reference; open out/docs/index.html
	RAYVOUS_RUN_TUTORIALS=$(DOCS_RUN) NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) out build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
