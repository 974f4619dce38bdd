# Everything a developer does, each in a virtual environment of its own making (.venv). Needs Python 3.11 or newer and
# make; with gcc the hot path is compiled, without it runs as plain Python, and says so.
#   make run  ARGS="--port 5673 --memory"
#   make test ARGS="-k heartbeat" JOBS=1
#   make crash N=500

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
BIN := .venv/bin
PURE := build/pure
ARGS ?=
# Test files run side by side, one line of them per core: most of their time is waiting for processes and clocks.
PYTEST := -m pytest --numprocesses $(or $(JOBS),auto) --dist loadfile

.PHONY: run test test-compiled test-pure crash check bench bench-pipeline pipeline-demo build clean

run: build
	@exec $(BIN)/rabbitlike serve $(ARGS)

# Both speeds of the one source. Where nothing could be compiled the first run is the pure one already.
test: test-compiled
	@if $(BIN)/python -c 'import sys; from rabbitlike import _build; sys.exit(not _build.built_modules())'; \
	then $(MAKE) --no-print-directory test-pure; fi

test-compiled: build .venv/.dev
	$(BIN)/python $(PYTEST) $(ARGS)

# What asks over HTTP alone, or through Spark, sees nothing of the difference, and is not asked twice; nor are other
# clients, after pika, aio-pika and Celery, nor the examples of the pages, and ten kills do where the compiled build had fifty.
NOT_TWICE := $(addprefix --ignore=,interop/amqp_tools interop/amqpstorm interop/dramatiq interop/faststream interop/languages interop/management \
	interop/parity interop/plugins interop/py_amqp interop/rabbitpy tests/commands tests/spark tests/test_docs.py)

# A copy of the tree without extensions: Python prefers a .so that lies beside a .py, whatever one asks it.
test-pure: .venv/.dev
	@rm -rf $(PURE) && mkdir -p $(PURE)
	@tar cf - --exclude=./.git --exclude=./.venv --exclude=./build --exclude=./data --exclude='*.so' --exclude=__pycache__ \
		--exclude='./.*_cache' --exclude=./benchmarks/results . | tar xf - -C $(PURE)
	cd $(PURE) && RABBITLIKE_PURE=1 CRASH_ROUNDS=$(or $(CRASH_ROUNDS),10) PYTHONPATH=$(CURDIR)/$(PURE) $(CURDIR)/$(BIN)/python $(PYTEST) $(NOT_TWICE) $(ARGS)

# Kills the broker N times under load and looks what is left.
crash: build .venv/.dev
	CRASH_ROUNDS=$(or $(N),50) $(BIN)/python -m pytest tests/crash $(ARGS)

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: build .venv/.dev
	$(BIN)/python -m benchmarks $(ARGS)

# A broker, a minute of traffic that goes wrong, the pipeline on Spark, and a page with charts. Needs Java 17.
pipeline-demo: build .venv/.dev
	@$(BIN)/python -m rabbitlike.spark.jobs.demo $(ARGS)

# Events per second of the pipeline: make bench-pipeline ARGS="--events 10000000"
bench-pipeline: .venv/.dev
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

# Compiles what changed, into the tree.
build: .venv/.run
	@$(BIN)/python setup.py -q build_ext --inplace

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find protocol rabbitlike storage spark tests benchmarks interop \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +

.venv/.run: pyproject.toml setup.py
	@test -n "$(PYTHON)" || { echo "rabbitlike needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'cython>=3.1'
	RABBITLIKE_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e .
	@touch $@

.venv/.dev: .venv/.run
	RABBITLIKE_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[dev]'
	@touch $@
