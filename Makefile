# Everything a developer does, each in a virtual environment of its own making (.venv). Needs Python 3.11 or newer and
# make; with gcc the hot path is compiled, without it runs as plain Python, and says so.
#   make run  ARGS="--port 5673 --memory"
#   make test ARGS="-k heartbeat" JOBS=1
#   make test-fast      # in the edit loop: what needs no processes, and is quick
#   make test-checked   # with checks of indexes and memory, which the compiled build leaves out
#   make crash N=500
#   make test-tools     # what the suite needs beside Python: Java, RabbitMQ, Chromium, clients of other languages

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
BIN := .venv/bin
PURE := build/pure
CHECKED := build/checked
# Not --quiet: its lines show that the first start goes on.
PIP := --disable-pip-version-check --progress-bar off
ARGS ?=
# Test files run side by side, one line of them per core: most of their time is waiting for processes and clocks.
PYTEST := -m pytest --numprocesses $(or $(JOBS),auto) --dist loadfile

.PHONY: run test test-compiled test-fast test-pure test-checked test-sliced test-tools crash check bench soak bench-pipeline pipeline-demo build wheel docs clean

run: build
	@exec $(BIN)/rabbitlike serve $(ARGS)

# Both speeds of the one source. Where nothing could be compiled the first run is the pure one already.
# The last run's table of tests that were left out for want of a tool counts those of both.
test: export LEFT_OUT := $(CURDIR)/build/left-out.json
test:
	@rm -f $(LEFT_OUT)
	@$(MAKE) --no-print-directory test-compiled
	@if $(BIN)/python -c 'import sys; from rabbitlike import _build; sys.exit(not _build.built_modules())'; \
	then $(MAKE) --no-print-directory test-pure; fi

test-compiled: build .venv/.dev
	$(BIN)/python $(PYTEST) $(ARGS)

# For the edit loop, compiled: what needs no process and no socket, without what takes long even so.
FAST := tests/contract tests/unit tests/wire
NOT_FAST := tests/unit/broker/test_patterns.py tests/unit/spark tests/unit/storage/test_kill.py tests/unit/storage/test_power_loss.py \
	tests/unit/test_left_out.py tests/unit/test_open_loop.py $(addprefix tests/wire/test_,attacks.py crowds.py deadlines.py flow_control.py fuzz.py slices.py)
test-fast: build .venv/.dev
	@echo "rabbitlike: test-fast leaves out:" $(filter-out $(FAST),$(patsubst %/,%,$(filter-out tests/support/ %__pycache__/,$(wildcard tests/*/)))) \
		$(wildcard tests/test_*.py) interop $(NOT_FAST), and the build in plain Python
	$(BIN)/python $(PYTEST) $(FAST) $(addprefix --ignore=,$(NOT_FAST)) $(ARGS)

# What asks over HTTP alone, or through Spark, sees nothing of the difference, and is not asked twice; nor are other
# clients, after pika, aio-pika and Celery, nor the examples of the pages, nor floods, whose bounds are the same; and ten kills
# do where the compiled build had fifty.
NOT_TWICE := $(addprefix --ignore=,interop/amqp_tools interop/amqpstorm interop/dramatiq interop/faststream interop/languages interop/management \
	interop/management_ui interop/parity interop/plugins interop/py_amqp interop/rabbitpy tests/commands tests/server/test_floods.py tests/spark tests/test_docs.py)

# A copy of the tree without extensions: Python prefers a .so that lies beside a .py, whatever one asks it.
copy = rm -rf $(1) && mkdir -p $(1) && tar cf - --exclude=./.git --exclude=./.venv --exclude=./build --exclude=./data --exclude='*.so' \
	--exclude=__pycache__ --exclude='./.*_cache' --exclude=./benchmarks/results . | tar xf - -C $(1)

test-pure: .venv/.dev
	@$(call copy,$(PURE))
	cd $(PURE) && RABBITLIKE_PURE=1 CRASH_ROUNDS=$(or $(CRASH_ROUNDS),10) PYTHONPATH=$(CURDIR)/$(PURE) $(CURDIR)/$(BIN)/python $(PYTEST) $(NOT_TWICE) $(ARGS)

# A copy compiled so that a bad index is an IndexError, and a bad access through a pointer, an overflow or a division by zero
# ends the process; there, the tests that send octets of every kind, without those that take long for another reason: many
# clients, or time. PYTHONMALLOC=malloc shows each object's bounds to the sanitizer.
CHECKED_TESTS := tests/model/test_queue_model.py tests/unit/protocol tests/unit/storage/test_parquet.py tests/unit/test_checked_build.py \
	tests/wire $(addprefix --ignore=tests/wire/,test_crowds.py test_deadlines.py test_slices.py)
test-checked: export RABBITLIKE_CHECKED = 1
test-checked: export PYTHONPATH = $(CURDIR)/$(CHECKED)
test-checked: export ASAN_OPTIONS = detect_leaks=0:malloc_context_size=4:quarantine_size_mb=32:log_path=fault
test-checked: export UBSAN_OPTIONS = print_stacktrace=1:log_path=fault
test-checked: .venv/.dev
	@$(call copy,$(CHECKED))
	cd $(CHECKED) && RABBITLIKE_PURE=0 $(CURDIR)/$(BIN)/python setup.py -q build_ext --inplace
	cd $(CHECKED) && PYTHONMALLOC=malloc LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
		$(CURDIR)/$(BIN)/python $(PYTEST) $(CHECKED_TESTS) $(ARGS) || { cat fault.* 2>/dev/null; exit 1; }

# Java, RabbitMQ, Chromium, clients of other languages, strace; without them their tests are left out. Debian and Ubuntu.
test-tools:
	@.ci/tools

# Every turn ends after one step: nothing that a client sees may depend on where turns end.
test-sliced: build .venv/.dev
	RABBITLIKE_TEST_SLICED=1 $(BIN)/python $(PYTEST) tests/wire $(ARGS)

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

# Ten minutes of floods and other bad manners, with a well-behaved client beside: make soak ARGS="--minutes 1 --only flood"
soak: build .venv/.dev
	$(BIN)/python -m benchmarks.soak $(ARGS)

# A broker, a minute of traffic that goes wrong, the pipeline on Spark, and a page with charts. Needs Java 17.
pipeline-demo: build .venv/.dev
	@$(BIN)/python -m rabbitlike.spark.jobs.demo $(ARGS)

# Events per second of the pipeline: make bench-pipeline ARGS="--events 10000000"
bench-pipeline: .venv/.dev
	$(BIN)/python -m benchmarks.pipeline $(ARGS)

# Compiles what changed, into the tree.
build: .venv/.run
	@$(BIN)/python setup.py -q build_ext --inplace

# dist/rabbitlike-….whl with compiled modules, for this Python and kind of machine: whoever installs it needs no compiler.
wheel: build
	@rm -rf build/lib* build/bdist* dist/rabbitlike-*.whl
	@RABBITLIKE_PURE=0 $(BIN)/python -m pip wheel $(PIP) --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/rabbitlike-*.whl

# The tables of queue arguments and policy keys in docs/, from the table of queue settings.
docs: .venv/.dev
	$(BIN)/python -m tests.support.settings_docs

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find protocol rabbitlike storage spark tests benchmarks interop \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +

.venv/.run: pyproject.toml setup.py
	@test -n "$(PYTHON)" || { echo "rabbitlike needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "rabbitlike: the first start makes .venv, installs packages and compiles: two to three minutes on two cores, once"
	@echo "rabbitlike: 1 of 3: a virtual environment in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "rabbitlike: 2 of 3: packages"
	@$(BIN)/python -m pip install $(PIP) 'setuptools>=77' 'cython>=3.1'
	@RABBITLIKE_PURE=1 $(BIN)/python -m pip install $(PIP) --no-build-isolation -e .
	@echo "rabbitlike: 3 of 3: the hot path"
	@touch $@

.venv/.dev: .venv/.run
	@echo "rabbitlike: packages for tests and checks, Spark among them: some minutes, once"
	@RABBITLIKE_PURE=1 $(BIN)/python -m pip install $(PIP) --no-build-isolation -e '.[dev]'
	@touch $@
